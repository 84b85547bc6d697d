"""``alignlens server``: an MLflow server of your own, with PostgreSQL and proxied files."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from alignlens.cli.actions import add_actions
from alignlens.serving.command import port_number
from alignlens.serving.server import SECRETS, Server, ServerSettings

if TYPE_CHECKING:
    import argparse

_EPILOG = f"""example:
  alignlens server up --port 5000
  alignlens server down

Serves this machine only, unless --host says otherwise, which needs --auth and --allowed-hosts. With --auth
{SECRETS[0]} and {SECRETS[1]} must be set, and
MLFLOW_AUTH_ADMIN_USERNAME may be (admin); clients set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.
'alignlens server ACTION --help' explains an action."""
_ACTIONS = {
    "up": (
        "Start PostgreSQL and MLflow if they are not running; doing it twice changes nothing.",
        "alignlens server up --host 0.0.0.0 --auth --allowed-hosts mlflow.example.org",
    ),
    "status": (
        "Show what is running; exits with 2 unless the server answers.",
        "alignlens server status --json",
    ),
    "down": (
        "Stop what 'up' has started. Nothing is lost: the next 'up' serves the same runs.",
        "alignlens server down",
    ),
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the actions and their options."""
    parser.epilog = _EPILOG
    for name, action in add_actions(parser, _ACTIONS).items():
        folder = Path("results", "server")
        action.add_argument("--folder", type=Path, default=folder, help=f"database, files, logs ({folder})")
        if name == "up":
            _add_doors(action)
        if name == "status":
            action.add_argument("--json", action="store_true", help="print one JSON object")


def _add_doors(action: argparse.ArgumentParser) -> None:
    action.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    action.add_argument("--port", default="5000", help="port to listen on (5000)")
    action.add_argument("--auth", action="store_true", help="ask for user and password (MLflow's basic auth)")
    action.add_argument(
        "--allowed-hosts", type=_names, default=(), metavar="NAME[,NAME]", help="host names that clients use"
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def run(args: argparse.Namespace) -> int:
    """Runs one action."""
    server = Server(args.folder)
    if args.action == "status":
        return _status(server, args.json)
    if args.action == "down":
        print("stopped" if server.down() else "nothing ran")
        return 0
    settings = ServerSettings(args.host, port_number(args.port), args.auth, args.allowed_hosts)
    server.up(settings)
    where = "" if args.folder == Path("results", "server") else f" --folder {args.folder}"
    print(f"open {settings.url}")
    print(f"use it with   tracking: {{uri: {settings.url}}}   or   export MLFLOW_TRACKING_URI={settings.url}")
    print(f"stop it with  alignlens server down{where}")
    return 0


def _status(server: Server, as_json: bool) -> int:
    running, answers = server.running(), server.answers()
    pids = {"database": server.database.daemon.pid, "server": server.daemon.pid}
    if as_json:
        settings = None if running is None else asdict(running) | {"url": running.url}
        print(json.dumps({"answers": answers, "pids": pids, "settings": settings}, sort_keys=True))
    else:
        for name, pid in pids.items():
            print(f"{name}: {'stopped' if pid is None else f'process {pid}'}")
        if running is not None:
            print(f"{running.url}: {'answers' if answers else 'does not answer'}")
    return 0 if answers else 2
