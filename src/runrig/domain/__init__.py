"""Values that every layer knows: quotas, pools, workflows, gangs, nodes, reasons, errors, plans.

Frozen, free of I/O, and without an import of anything else of ours.
"""
