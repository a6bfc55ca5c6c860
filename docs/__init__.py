"""The documentation, and the program that keeps its reference parts in step with the code (`generate`)."""
