"""Kobayashi, Kuribayashi, Yokoi and Inui 2020: norms of the vectors that attention adds up."""
