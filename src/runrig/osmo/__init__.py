"""The shape of the reference client: JSON of runrig's own API → JSON that the reference client reads.  Pure.

The OSMO-compatible API answers it, and `-t json` prints it with fields of its own behind.
"""
