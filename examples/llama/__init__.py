"""Serve a tiny Llama of `transformers` out of kvgpu: `python -m examples.llama`."""
