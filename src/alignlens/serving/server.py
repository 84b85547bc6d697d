"""An MLflow server of our own, with PostgreSQL behind it, that also serves files: up, status, down.

Everything is in one private folder. Passwords come from the environment and are written nowhere by us; MLflow
keeps hashes of those of its users in ``basic_auth.db`` there.
"""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from alignlens.errors import ConfigError, InputError, ToolError
from alignlens.io.atomic import write_json, write_text
from alignlens.serving.command import (
    check_free,
    check_host,
    guests,
    is_loopback,
    is_machine,
    server_command,
    server_environment,
    url_of,
)
from alignlens.serving.daemons import Daemon
from alignlens.serving.database import POOL, Database
from alignlens.tracking.turns import turn

if TYPE_CHECKING:
    from pathlib import Path

SECRETS = ("MLFLOW_AUTH_ADMIN_PASSWORD", "MLFLOW_FLASK_SERVER_SECRET_KEY")

# No secrets in there. A password is hashed once a minute and not, slowly, for every request; with one worker a password
# that is changed is the new one at once.
_AUTH = """[mlflow]
default_permission = READ
database_uri = sqlite:///basic_auth.db
admin_username = admin
auth_cache_ttl_seconds = 60
"""
_START_SECONDS = 180.0
_ANSWER_SECONDS = 20.0  # on a machine with other work it may take its time
_GLANCE_SECONDS = 0.25


@dataclass(frozen=True)
class ServerSettings:
    """Who can reach the server, and by which name; no secrets."""

    host: str = "127.0.0.1"
    port: int = 5000
    auth: bool = False
    allowed_hosts: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """The address to give to others."""
        public = self.allowed_hosts and not is_loopback(self.host)
        return url_of(self.allowed_hosts[0] if public else self.host, self.port)

    def check_types(self) -> None:
        """Raises ``TypeError`` for what a damaged file may hold."""
        kinds = ((self.host, str), (self.port, int), (self.auth, bool), *((name, str) for name in self.allowed_hosts))
        if not all(isinstance(value, kind) for value, kind in kinds):
            raise TypeError

    def check(self) -> None:
        """Raises for a server that would be unreachable, or open to strangers."""
        check_host(self.host)
        if not is_loopback(self.host):
            if not self.auth:
                raise ConfigError(f"--host {self.host}: others can reach this address, so it needs --auth.")
            if not self.allowed_hosts:
                raise ConfigError(
                    f"--host {self.host}: give the host names that clients use: --allowed-hosts NAME[,NAME]."
                )
        for name in self.allowed_hosts:
            if not is_machine(name):
                raise ConfigError(f"--allowed-hosts: {name!r} is not a host name. Give names without ports.")
        missing = [name for name in SECRETS if self.auth and not os.environ.get(name)]
        if missing:
            raise ConfigError(f"--auth: set {' and '.join(missing)} in the environment.")


class Server:
    """The server in one folder. Every action may be repeated, and goes on after a kill at any point."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.database = Database(self.folder)
        self.daemon = Daemon(self.folder, "server")

    def up(self, settings: ServerSettings) -> None:
        """Starts what does not run and returns when the server answers."""
        settings.check()
        _check_packages(settings.auth)
        self._make_folder()
        with turn(self.folder / "lock"):
            running = self.running()
            if running is not None and running != settings:
                raise ConfigError(f"{running.url}: already runs with other options. First run: alignlens server down.")
            self.database.up()
            self._serve(settings)
            if self.daemon.pid is None:  # it was about to die, and its child answered in its place
                self._serve(settings)

    def down(self) -> bool:
        """Ends the server, then the database; returns whether anything ran."""
        if not self.folder.is_dir():
            return False
        with turn(self.folder / "lock"):
            served = self.daemon.end(signal.SIGTERM)
            return self.database.down() or served

    def running(self) -> ServerSettings | None:
        """Returns the settings of the living server."""
        if self.daemon.pid is None:
            return None
        try:
            content = json.loads(self._settings.read_text(encoding="utf-8"))
            settings = ServerSettings(**content | {"allowed_hosts": tuple(content["allowed_hosts"])})
            settings.check_types()
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            raise InputError(
                "damaged or missing, though the server is running.",
                self._settings,
                advice="Run: alignlens server down.",
            ) from None
        return settings

    def answers(self) -> bool:
        """Returns whether server and database are alive and the server answers."""
        running = self.running()
        return running is not None and self.database.daemon.pid is not None and _is_healthy(running)

    @property
    def _settings(self) -> Path:
        return self.folder / "server.json"

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # For root the database runs as another user, who may pass through this folder and see nothing of it.
            self.folder.chmod(0o710 if os.geteuid() == 0 else 0o700)
            (self.folder / "artifacts").mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"{self.folder}: cannot be made private ({error.strerror}). Choose another --folder."
            ) from None

    def _serve(self, settings: ServerSettings) -> None:
        if self.daemon.pid is None:
            self.daemon.end(signal.SIGTERM)  # left by a killed server
            check_free(settings.host, settings.port)
            write_json(self._settings, asdict(settings))
            self._start(settings)
        self._wait(settings)
        self.daemon.record_children()

    def _start(self, settings: ServerSettings) -> None:
        environment = server_environment(self.database.uri, str(self.folder / "artifacts"))
        environment |= POOL | guests(settings.allowed_hosts, settings.port)
        options: tuple[str, ...] = ()
        if settings.auth:
            options = ("--app-name", "basic-auth")
            users = self.folder / "basic_auth.ini"
            write_text(users, _AUTH)
            users.chmod(0o600)
            environment.setdefault("MLFLOW_AUTH_CONFIG_PATH", str(users))
        self.daemon.start(server_command(settings.host, settings.port, *options), environment, self.folder)

    def _wait(self, settings: ServerSettings) -> None:
        until = time.monotonic() + _START_SECONDS
        while not _is_healthy(settings):
            if self.daemon.pid is None or time.monotonic() > until:
                raise ToolError(
                    f"the MLflow server does not start ({self.daemon.last_words()}). See {self.daemon.log}."
                )
            time.sleep(_GLANCE_SECONDS)


def _is_healthy(settings: ServerSettings) -> bool:
    import http.client  # slow to load, and help needs none of it

    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)
    connection = http.client.HTTPConnection(host, settings.port, timeout=_ANSWER_SECONDS)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _check_packages(auth: bool) -> None:
    needed = ["psycopg2", *(["flask_wtf"] if auth else [])]
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise ToolError(f"{', '.join(missing)}: not installed. Run: pip install 'alignlens[server]'.")
