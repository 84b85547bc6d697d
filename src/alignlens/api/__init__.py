"""What ``import alignlens`` offers in Python; ``alignlens`` itself loads these only when they are asked for."""
