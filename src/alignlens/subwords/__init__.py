"""Subwords: SentencePiece BPE, and the only code that knows where words start."""
