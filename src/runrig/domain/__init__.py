"""Values that every layer uses: quotas, pools, workflows, gangs, nodes, reasons, errors, plans.

They are frozen, do no I/O and import nothing else of runrig.
"""
