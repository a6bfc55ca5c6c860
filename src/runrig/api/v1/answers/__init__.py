"""Values of the service → models of `wire.v1`.  Pure."""
