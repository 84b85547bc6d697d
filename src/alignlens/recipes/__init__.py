"""Recipes: which scores of two models give the best alignment together; the search, the file, and its use."""
