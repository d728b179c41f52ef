"""Bridges from managers to plain ints and sequences; each is imported only when called for."""
