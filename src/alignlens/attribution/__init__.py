"""What a model looked at: one file per method, scores per piece. No words, no links, no files."""
