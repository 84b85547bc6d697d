"""Scores of alignments and translations, with their uncertainty."""
