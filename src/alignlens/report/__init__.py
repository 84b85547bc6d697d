"""Report: tables (csv, md, tex, html), alignment figures, the self-contained HTML page."""
