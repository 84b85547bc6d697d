"""Where the MLflow store is, whether it can be reached, and whose turn it is to write. Needs no MLflow."""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from alignlens.errors import ConfigError, ToolError
from alignlens.tracking.journal import redacted
from alignlens.tracking.turns import turn

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

_SQLITE = "sqlite:///"
_DATABASE_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
_PROBE_SECONDS = 5.0


class Address:
    """The tracking URI, taken apart; printing it never shows a password."""

    def __init__(self, uri: str, artifacts: Path | None = None) -> None:
        """``artifacts`` holds the files of a database without a server; a SQLite file has them beside itself."""
        self.uri = uri
        self.database: Path | None = None
        self.artifacts: Path | None = None
        try:
            self._parts = urlsplit(uri)
            self._port = self._parts.port
        except ValueError:
            raise ConfigError(f"{redacted(uri)}: not a tracking URI.") from None
        scheme = self._parts.scheme.partition("+")[0]
        if scheme == "sqlite":
            name = uri[len(_SQLITE) :].partition("?")[0]
            if not uri.startswith(_SQLITE) or not name or name == ":memory:":
                raise ConfigError(f"{uri}: SQLite in memory keeps nothing. Use sqlite:///path/to/mlflow.db.")
            self.database = Path(name).resolve()
            self.uri = _SQLITE + str(self.database)
            self.artifacts = self.database.parent / "mlartifacts"
        elif scheme in _DATABASE_PORTS:
            self._port = self._port or _DATABASE_PORTS[scheme]
            self.artifacts = (artifacts or Path("results", "mlartifacts")).resolve()
        elif scheme not in ("http", "https"):
            raise ConfigError(
                f"{redacted(uri)}: not a tracking URI. Use sqlite:///path/to/mlflow.db, http(s)://host:port or a "
                "database such as postgresql://host/name."
            )
        self.is_server = scheme in ("http", "https")

    def __str__(self) -> str:
        if self.database is not None:
            return self.uri
        # The query part may hold a password as well, and nothing a reader needs.
        return redacted(urlunsplit(self._parts._replace(query="", fragment="")))

    def hide(self, text: str) -> str:
        """Returns one line of ``text`` without the secrets of this address."""
        hidden = text.replace(self.uri, str(self))
        if self._parts.password:
            hidden = hidden.replace(self._parts.password, "***")
        return redacted(" ".join(hidden.split()))

    def check(self) -> None:
        """Raises within seconds if nothing answers there; MLflow itself would try for minutes."""
        import sqlite3

        try:
            if self.database is not None:
                self._check_sqlite(self.database)
            elif self.is_server:
                self._check_server()
            else:
                where = (self._parts.hostname or "localhost", self._port or 0)
                socket.create_connection(where, timeout=_PROBE_SECONDS).close()
        except (OSError, sqlite3.Error) as error:
            cause = getattr(error, "reason", error)
            reason = getattr(cause, "strerror", None) or cause
            advice = " Remove it or run: alignlens track rebuild." if self.database is not None else ""
            raise ToolError(f"{self}: not usable ({self.hide(str(reason))}).{advice}") from None

    def _check_sqlite(self, database: Path) -> None:
        import sqlite3

        database.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(database, timeout=20.0)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            connection.execute("BEGIN IMMEDIATE")
            connection.rollback()

    def _check_server(self) -> None:
        import ssl  # both are slow to load, and a job that only names its store needs neither
        import urllib.error
        import urllib.request

        host = self._parts.netloc.rpartition("@")[2]
        url = urlunsplit((self._parts.scheme, host, self._parts.path.rstrip("/") + "/health", "", ""))
        try:
            urllib.request.urlopen(url, timeout=_PROBE_SECONDS).close()
        except urllib.error.HTTPError as error:
            error.close()  # any answer will do: a gateway may know /health or not
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ssl.SSLError):  # MLflow has its own settings for certificates
                raise

    def turn(self) -> AbstractContextManager[None]:
        """Holds this machine's lock on the store: two writers would create runs twice, or a schema at once."""
        if self.database is not None:
            return turn(self.database.with_suffix(".lock"))
        name = hashlib.sha256(self.uri.encode()).hexdigest()[:16]
        return turn(Path(tempfile.gettempdir()) / f"alignlens-{os.getuid()}-{name}.lock")


def resolve_address(uri: str | None, results: Path) -> Address:
    """Returns the store to use: the given URI, else MLFLOW_TRACKING_URI, else SQLite in the results folder."""
    chosen = uri or os.environ.get("MLFLOW_TRACKING_URI") or _SQLITE + str((results / "mlflow.db").resolve())
    return Address(chosen, results / "mlartifacts")
