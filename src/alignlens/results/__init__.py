"""A results folder: where everything is, which files belong to a configuration, and how to read them."""
