"""The JSON that the command line prints, made from what the server answers.

Scripts hold on to it: the names of the reference client's fields come first, then ours; times are UTC without a zone.
"""
