"""Translation models from elsewhere: each family in a file of its own, read as one of our architectures."""
