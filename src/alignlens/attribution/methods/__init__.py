"""One file per method: what it is called, who published it, and its arithmetic."""
