"""Whole requests: their operations, their oracle and ledger, and the judge that compares."""
