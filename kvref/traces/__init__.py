"""Traces: a run on disk, one JSON value a line. See `docs/traces.md`."""
