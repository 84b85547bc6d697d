"""Layer-wise relevance propagation: an output traced back, layer by layer, to the tokens."""
