"""Triton kernels; imported only when a tensor on a GPU (or the interpreter) calls for one."""
