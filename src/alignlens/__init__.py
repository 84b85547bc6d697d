"""alignlens: find out what a translation model looked at."""

__version__ = "0.1.0"
