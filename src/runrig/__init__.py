"""runrig shares GPUs between teams, and can say of every waiting workflow why it waits."""

__version__ = "0.1.0"
