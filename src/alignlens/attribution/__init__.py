"""Attribution: which source pieces a model looked at. One file per method, scores per piece; no words, links, files."""
