"""Imported queues: Kueue's decisions on runrig's quota tree, for `simulate` (rules Q1–Q5, A1, R5)."""
