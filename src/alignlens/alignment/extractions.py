"""The procedures from scores of pieces to links of words, by name; plain data.

A separate module, so that a new way to symmetrise does not make attribution run again.
"""

EXTRACTIONS = ("ding", "kobayashi")
