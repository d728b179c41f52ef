"""Traces as programs that import nothing of kvref. See `docs/traces.md`."""
