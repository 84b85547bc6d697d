"""Which scores of two models together make the best alignment: the search for them, the file, and their use."""
