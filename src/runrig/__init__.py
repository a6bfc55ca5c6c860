"""runrig shares GPUs between teams, and shows why each workflow is waiting."""

__version__ = "0.1.0"
