"""What the service needs from the outside.  Implemented in store/ and backends/, chosen in wiring/."""
