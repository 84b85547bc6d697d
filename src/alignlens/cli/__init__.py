"""Thin verbs: parse, call one function, write."""
