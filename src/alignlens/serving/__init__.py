"""An MLflow server of our own, with PostgreSQL behind it."""
