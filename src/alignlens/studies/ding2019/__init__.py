"""Ding, Xu and Koehn 2019: word saliency for the alignments of translation models."""
