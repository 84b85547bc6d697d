"""What the study shows: its tables and figures."""
