"""Datasets: the registry, fetching and verifying, cleaning, preparing, and a synthetic bitext with gold links."""
