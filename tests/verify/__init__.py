"""The checker of event logs."""
