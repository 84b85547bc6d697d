"""The ids of the control symbols: the same in every vocabulary that ``alignlens subwords train`` makes."""

from __future__ import annotations

UNKNOWN_ID, BEGIN_ID, END_ID, PADDING_ID = 0, 1, 2, 3
