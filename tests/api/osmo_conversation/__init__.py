"""What the unmodified client of OSMO 6.4.0 says and reads, command by command, written down by hand from its requests."""
