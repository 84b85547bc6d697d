"""Snell, Zhong, Klein and Steinhardt 2021: how a single head learns to attend."""
