"""Files: atomic writes, text readers, checksums, progress. No science."""
