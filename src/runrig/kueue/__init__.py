"""Imported queues, for `simulate`: Kueue's manifests, Kueue's decisions about them, and simulations over several cycles.

Only `service/simulate` imports this package. Nothing here depends on a server, a store or runrig's own pools.
"""
