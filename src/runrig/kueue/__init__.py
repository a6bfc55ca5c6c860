"""Imported queues, for `simulate`: Kueue's manifests, Kueue's decisions about them, and a run over several cycles.

Only `service/simulate` imports this package. Nothing here knows about a server, a store or our own dialect.
"""
