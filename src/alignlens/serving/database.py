"""A PostgreSQL of our own: one folder, one Unix socket in it, no network.

The socket is in a folder that no other user may enter, so it needs no password.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from urllib.parse import quote

from alignlens.errors import ConfigError, ToolError
from alignlens.io.atomic import atomic_directory
from alignlens.serving.daemons import Daemon, privileges

_USER, _NAME = "alignlens", "mlflow"
_SYSTEM_USER = "postgres"
_SOCKET_BYTES = 107  # the kernel's limit for the path of a socket
_START_SECONDS = 60.0
_GLANCE_SECONDS = 0.2
_DEBIAN = Path("/usr/lib/postgresql")
_PROGRAMS = ("postgres", "initdb", "createdb", "pg_isready")
_CONNECTIONS = 120

# MLflow answers up to 40 requests at once, and one that logs a batch holds a connection while it waits for a second.
# With SQLAlchemy's 15 connections, 15 such requests wait for each other until all of them have failed.
POOL = {
    "MLFLOW_SQLALCHEMYSTORE_POOLCLASS": "QueuePool",
    "MLFLOW_SQLALCHEMYSTORE_POOL_SIZE": "20",
    "MLFLOW_SQLALCHEMYSTORE_MAX_OVERFLOW": "80",
}
"""For MLflow: two connections for every request, and fewer in all than PostgreSQL grants."""

_INSTALL = "Install it (Debian, Ubuntu: apt-get install postgresql) or put its programs on the PATH."


class Database:
    """The cluster in ``folder``/database. PostgreSQL refuses to run as root; for root it runs as user postgres."""

    def __init__(self, folder: Path) -> None:
        self._home = folder / "database"
        self._data = self._home / "data"
        self.daemon = Daemon(folder, "database")
        self._user = _SYSTEM_USER if os.geteuid() == 0 else None

    @property
    def uri(self) -> str:
        """The address for SQLAlchemy; it holds no password."""
        return f"postgresql://{_USER}@/{_NAME}?host={quote(str(self._home), safe='/')}"

    def up(self) -> None:
        """Makes the cluster if there is none, starts it if it does not run, and returns when it answers."""
        programs = find_programs()
        self._check_socket()
        self._make_home()
        if not (self._data / "PG_VERSION").is_file():
            self._make_cluster(programs)
        until = time.monotonic() + _START_SECONDS
        while not self._answers(programs):
            if time.monotonic() > until:
                raise ToolError(f"PostgreSQL does not start ({self.daemon.last_words()}). See {self.daemon.log}.")
            # Also after a failed attempt: the processes of a killed server need a moment to end.
            if self.daemon.pid is None:
                self._start(programs)
            time.sleep(_GLANCE_SECONDS)
        self._make_database(programs)

    def down(self) -> bool:
        """Ends it, cutting connections; returns whether it ran."""
        return self.daemon.end(signal.SIGINT)

    def _check_socket(self) -> None:
        needed = len(os.fsencode(self._home / ".s.PGSQL.5432"))
        if needed > _SOCKET_BYTES:
            excess = needed - _SOCKET_BYTES
            raise ConfigError(
                f"{self._home}: the path is {excess} bytes too long for a socket. Choose a shorter --folder."
            )

    def _make_home(self) -> None:
        self._home.mkdir(mode=0o700, exist_ok=True)
        if self._user is not None:
            try:
                shutil.chown(self._home.parent, group=self._user)
                shutil.chown(self._home, self._user, self._user)
            except LookupError:
                raise ToolError(
                    f"PostgreSQL does not run as root, and there is no user {self._user}. Run this as another user."
                ) from None
            if subprocess.run(["test", "-x", self._home], check=False, **privileges(self._user)).returncode != 0:
                raise ConfigError(
                    f"{self._home}: user {self._user} has no access to it, and PostgreSQL does not run as root. "
                    "Choose a --folder whose parent folders others may enter."
                )

    def _make_cluster(self, programs: Path) -> None:
        with atomic_directory(self._data, "database", sealed=False) as data:
            data.chmod(0o700)
            if self._user is not None:
                shutil.chown(data, self._user, self._user)
            access = ["--username", _USER, "--auth-local", "trust", "--auth-host", "reject"]
            self._run(programs / "initdb", "--pgdata", str(data), *access, "--encoding", "UTF8", "--no-locale")

    def _start(self, programs: Path) -> None:
        options = {
            "listen_addresses": "",
            "unix_socket_directories": str(self._home),
            "unix_socket_permissions": "0700",
            "max_connections": str(_CONNECTIONS),
        }
        settings = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        command = [str(programs / "postgres"), "-D", str(self._data), *settings]
        self.daemon.start(command, _plain_environment(), self._home, self._user)

    def _answers(self, programs: Path) -> bool:
        if self.daemon.pid is None:
            return False
        command = [str(programs / "pg_isready"), "--quiet", "--host", str(self._home), "--dbname", "postgres"]
        return subprocess.run(command, env=_plain_environment(), check=False).returncode == 0

    def _make_database(self, programs: Path) -> None:
        try:
            self._run(programs / "createdb", "--host", str(self._home), "--username", _USER, _NAME)
        except ToolError as error:
            if "already exists" not in str(error):
                raise

    def _run(self, program: Path, *arguments: str) -> None:
        done = subprocess.run(
            [program, *arguments],
            env=_plain_environment(),
            cwd=self._home,
            capture_output=True,
            text=True,
            check=False,
            **privileges(self._user),
        )
        if done.returncode != 0:
            reason = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
            raise ToolError(f"{program.name} failed ({reason}).")


def _plain_environment() -> dict[str, str]:
    """Nothing of ours: it may hold passwords; and messages in the language that we look for."""
    return {"PATH": os.defpath, "LC_ALL": "C"}


def find_programs() -> Path:
    """Returns the folder of PostgreSQL's programs; Debian keeps them off the PATH, by version."""
    versions = _DEBIAN.glob("*/bin/postgres")
    newest = sorted(versions, key=lambda path: float(path.parts[-3]), reverse=True)
    for program in (shutil.which("postgres"), *newest):
        folder = Path(program or "").resolve().parent
        if all((folder / name).is_file() for name in _PROGRAMS):
            return folder
    raise ToolError(f"PostgreSQL is not installed. {_INSTALL}")
