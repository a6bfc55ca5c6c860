"""Imported queues: the decisions of Kueue on our quota tree, for `simulate` (laws Q1-Q5, A1, R5)."""
