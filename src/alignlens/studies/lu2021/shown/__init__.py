"""What the study shows: its figures and tables."""
