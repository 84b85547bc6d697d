"""Gradients of model outputs with respect to source vectors, many at a time, by explicit backward passes."""
