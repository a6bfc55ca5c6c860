"""The scheduling engine: pure decisions over the state. It uses no clock, randomness or I/O; time is an argument."""
