"""Where MLflow runs go, as set in a configuration; plain data."""

from __future__ import annotations

import re
from dataclasses import dataclass

from alignlens.errors import ConfigError
from alignlens.io.typed import ONE_LINE, setting

_PASSWORD = re.compile(r"://[^/@\s]*:[^/@\s]+@|[?&]password=")


@dataclass(frozen=True)
class TrackingSettings:
    """Where MLflow runs go."""

    uri: str | None = setting(
        None,
        "`null`: SQLite under `results/`; or a server, `http://host:port`. A password in the address is an error: "
        "put user and password in `MLFLOW_TRACKING_USERNAME` and `MLFLOW_TRACKING_PASSWORD`.",
        **ONE_LINE,
    )

    def __post_init__(self) -> None:
        """Raises for a password: a configuration is copied, committed and printed."""
        if self.uri is not None and _PASSWORD.search(self.uri):
            raise ConfigError(
                "tracking.uri: do not put a password in a configuration. "
                "Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD instead."
            )
