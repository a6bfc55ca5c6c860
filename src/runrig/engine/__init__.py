"""Who runs, where, and why not: pure decisions over the state.  No clock, no chance, no input or output; time is an argument."""
