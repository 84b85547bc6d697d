"""Small tasks that show when attention is learned and when it is not (Snell et al. 2021), many seeds at once."""
