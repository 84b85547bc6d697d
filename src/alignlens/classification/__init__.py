"""Text classification: labelled texts, a recurrent classifier with attention, and what it looks at."""
