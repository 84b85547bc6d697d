"""Voita, Sennrich and Titov (2020): who contributes to a prediction, source or target."""
