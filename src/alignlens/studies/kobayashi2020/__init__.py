"""Kobayashi et al. 2020: attention by the norms of what it adds up."""
