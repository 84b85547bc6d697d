"""External word aligners behind one interface: train on text, store, apply to any text."""
