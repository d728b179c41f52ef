"""Finds the bugs in the KV-cache managers of LLM serving engines.

An oracle says what is right, a judge puts a manager beside it, and programs come from wherever
they are made: see `kvref.judge`, `kvref.oracle`, `kvref.operations`, `kvref.target`.
"""
