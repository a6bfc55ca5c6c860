"""How fast runrig decides, how that scales, and how long users wait: ``python -m bench``.

Times are wall-clock milliseconds in this process, with the garbage collector on as in the server.  They mean something only
together with the calibration loop, which is printed next to them.
"""
