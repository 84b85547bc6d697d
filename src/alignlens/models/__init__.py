"""Translation models behind one contract: LSTM, FConv, Transformer."""
