"""Bytes and connections: parsing requests, limiting and closing connections.  Independent of routes."""
