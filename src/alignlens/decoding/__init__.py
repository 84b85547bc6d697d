"""Forced scores, beam search and sampling, for any model of the contract."""
