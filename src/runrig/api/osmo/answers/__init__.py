"""Values of the service → models of `wire`.  Pure."""
