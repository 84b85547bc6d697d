"""Where the MLflow store is, whether it can be reached, and who may write now. Needs no MLflow."""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

from alignlens.errors import ConfigError, ToolError
from alignlens.tracking.events import escaped
from alignlens.tracking.journal import redacted
from alignlens.tracking.records import FILES
from alignlens.tracking.turns import turn

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

_SQLITE = "sqlite:///"
_DATABASE_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
_PROBE_SECONDS = 5.0
_HALF = 100  # characters


class Address:
    """The parsed tracking URI; printing it never shows a password."""

    def __init__(self, uri: str, artifacts: Path | None = None) -> None:
        """``artifacts`` holds the files of a database without a server; a SQLite file has them beside itself."""
        self.uri = uri
        self.database: Path | None = None
        self.artifacts: Path | None = None
        if escaped(uri) != uri:
            raise ConfigError(f"{redacted(escaped(uri))}: not a tracking URI.")
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
            self.artifacts = self.database.parent / FILES
        elif scheme in _DATABASE_PORTS:
            self._port = self._port or _DATABASE_PORTS[scheme]
            self.artifacts = (artifacts or Path("results", FILES)).resolve()
        elif scheme not in ("http", "https"):
            raise ConfigError(
                f"{redacted(uri)}: not a tracking URI. Use sqlite:///path/to/mlflow.db, http(s)://host:port or a "
                "database such as postgresql://host/name."
            )
        self.is_server = scheme in ("http", "https")
        if self.database is None and any(character.isspace() for character in uri):
            raise ConfigError(f"{redacted(uri)}: not a tracking URI. It may not hold spaces.")

    def __str__(self) -> str:
        if self.database is not None:
            return self.uri
        # The query part may hold a password as well, and nothing a reader needs.
        return redacted(urlunsplit(self._parts._replace(query="", fragment="")))

    def hide(self, text: str) -> str:
        """Returns one line of ``text``, fit for a terminal, without the secrets of this address.

        Of a long text the middle is left out: what was tried stands at its beginning, and why it failed at its end.
        """
        hidden = text.replace(self.uri, str(self))
        if self._parts.password:
            hidden = hidden.replace(self._parts.password, "***")
        line = redacted(escaped(" ".join(hidden.split())))
        return line if len(line) <= 2 * _HALF else f"{line[:_HALF]} … {line[-_HALF:]}"

    def was_moved(self, location: str | None) -> bool:
        """Returns whether ``location`` is a folder of files as we make them, but of a store at another place.

        A folder that a user chose for an experiment of their own stays.
        """
        if self.database is None or self.artifacts is None or not location or escaped(location) != location:
            return False
        place = Path(unquote(urlsplit(location).path) if location.startswith("file:") else location)
        if place.parts[-3:-1] != (FILES, "alignlens"):
            return False
        return not Path(os.path.realpath(place)).is_relative_to(os.path.realpath(self.artifacts))

    def check(self, thorough: bool = True) -> None:
        """Raises within seconds if nothing answers there, where MLflow itself would try for minutes.

        ``thorough`` also finds damage in a SQLite file, which takes longer the bigger it is.
        """
        try:
            if self.database is not None:
                self._check_sqlite(self.database, thorough)
            elif self.is_server:
                self._check_server()
            else:
                where = (self._parts.hostname or "localhost", self._port or 0)
                socket.create_connection(where, timeout=_PROBE_SECONDS).close()
        # ValueError: names of machines that cannot be any.
        except (OSError, ValueError) as error:
            cause = getattr(error, "reason", error)
            reason = getattr(cause, "strerror", None) or cause
            raise ToolError(f"{self}: not usable ({self.hide(str(reason))}).") from None

    def _check_sqlite(self, database: Path, thorough: bool) -> None:
        import sqlite3  # both only if there is something to write

        from alignlens.tracking.renewal import ADVICE, check_file, is_damage

        try:
            check_file(database, thorough)
        except sqlite3.Error as error:
            reason = self.hide(str(error))
            if is_damage(error):
                raise ToolError(f"{self}: damaged ({reason}). Rebuild it: alignlens track rebuild.") from None
            raise ToolError(f"{self}: not usable ({reason}). {ADVICE}") from None

    def _check_server(self) -> None:
        import http.client  # slow to load, and a job that only names its store needs none of them
        import ssl
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
        except http.client.HTTPException as error:
            raise OSError(f"no web server: {type(error).__name__}") from None

    def turn(self) -> AbstractContextManager[None]:
        """Holds this machine's lock on the store: two writers would create runs twice, or a schema at once."""
        if self.database is not None:
            return turn(self.database.with_suffix(".lock"))
        name = hashlib.sha256(self.uri.encode()).hexdigest()[:16]
        return turn(Path(tempfile.gettempdir()) / f"alignlens-{os.getuid()}-{name}.lock")


def resolve_address(uri: str | None, results: Path) -> Address:
    """Returns the store to use: the given URI, else MLFLOW_TRACKING_URI, else SQLite in the results folder."""
    chosen = uri or os.environ.get("MLFLOW_TRACKING_URI") or _SQLITE + str((results / "mlflow.db").resolve())
    return Address(chosen, results / FILES)
