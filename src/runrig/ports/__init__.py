"""Protocols for everything outside the service. Implemented in store/ and backends/, chosen in wiring/."""
