"""What stands in a results folder: where everything is, which of it belongs to a configuration, and what it says."""
