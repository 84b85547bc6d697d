"""What ``import alignlens`` offers in Python; ``alignlens`` loads these only on first use."""
