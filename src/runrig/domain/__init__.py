"""Values that all layers share: quotas, pools, workflows, gangs, nodes, reasons, errors and plans.

They are immutable, do no I/O and import nothing else from runrig.
"""
