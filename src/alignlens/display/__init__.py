"""How results are shown: tables and their renderers, charts, heatmaps, the shell of a page. No results of its own."""
