"""How fast runrig decides, how that grows, and how long people wait: ``python -m bench``.

Times are wall-clock milliseconds in this process, the garbage collector on as in the server, and say nothing without the
calibration loop that is printed beside them.
"""
