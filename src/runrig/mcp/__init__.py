"""A server for agents (`runrig mcp`), on the official Python SDK: it uses the Python client, so it has no rights of its own.

`server` starts it, `access` finds the token of a call, `reading` and `changing` have the tools, `confirming` the keys between a dry run
and the change, and `answers` keeps what agents read small and harmless.
"""
