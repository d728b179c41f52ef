"""Workloads: request traces in Mooncake's format, made up or recorded, and their replay."""
