"""What the attention of an encoder adds up, ours and of the BERT family: loading, reading a text, statistics, files."""
