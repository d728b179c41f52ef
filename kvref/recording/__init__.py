"""Recording a manager that is in use: what needs no tensors. See `docs/recording.md`."""
