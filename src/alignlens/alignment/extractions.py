"""The procedures from scores of pieces to links of words, by name; plain data.

A module of its own: attribution must not be done again for a new way to symmetrise.
"""

EXTRACTIONS = ("ding", "kobayashi")
