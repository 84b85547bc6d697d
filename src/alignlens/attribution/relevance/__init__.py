"""Layer-wise relevance propagation: what an output is made of, layer by layer back to the tokens."""
