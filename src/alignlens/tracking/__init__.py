"""Runs on record: a journal beside every output, and MLflow as a view of the journals."""
