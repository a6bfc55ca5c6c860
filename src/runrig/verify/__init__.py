"""Checks the decisions in an event log against the scheduling rules (docs/laws.md, docs/verify.md).

Written from the rules, not from the engine: it imports nothing of runrig and needs only the standard library, so a copy of this
folder runs without runrig: ``python3 verify.py export.jsonl``.
"""
