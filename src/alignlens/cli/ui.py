"""``alignlens ui``: the MLflow UI on all runs."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from alignlens.cli.track import summary, warn
from alignlens.errors import ConfigError
from alignlens.tracking.address import resolve_address
from alignlens.tracking.records import find_journals

if TYPE_CHECKING:
    import argparse

    from alignlens.tracking.address import Address

_EPILOG = """example:
  alignlens ui --results results --port 5000

Brings the store up to date, prints the address and serves until Ctrl-C.
For a server (--uri http://...) it only prints the address to open."""
# MLflow starts with chat applications, where no run is seen, and no setting of the server changes that.
_WHERE = "press Model training, top left, then Experiments; docs/tracking.md shows how to compare runs"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.epilog = _EPILOG
    parser.add_argument("--results", type=Path, default=Path("results"), help="results folder (results)")
    parser.add_argument("--uri", help="tracking URI (MLFLOW_TRACKING_URI, else results/mlflow.db)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=5000, help="port to listen on (5000)")
    parser.add_argument("--no-sync", action="store_true", help="serve the store as it is")


def run(args: argparse.Namespace) -> int | None:
    """Syncs, then becomes the MLflow server."""
    address = resolve_address(args.uri, args.results)
    if not address.is_server:
        _check_free(args.host, args.port)
    if not args.no_sync:
        from alignlens.tracking.store import Store

        result = Store(address).sync(find_journals(args.results))
        warn(result, "alignlens ui")
        if not result.reached:
            return 2
        print(summary(result, address), file=sys.stderr)
    if address.is_server:
        print(f"open {address}")
        return 0
    print(_WHERE, file=sys.stderr)
    return _serve(address, args.host, args.port)


def _serve(address: Address, host: str, port: int) -> NoReturn:
    shown = f"[{host}]" if ":" in host else host
    print(f"open http://{shown}:{port} (Ctrl-C stops it)", flush=True)
    environment = {
        **os.environ,
        "MLFLOW_BACKEND_STORE_URI": address.uri,  # not an argument: it may hold a password
        "MLFLOW_ARTIFACTS_DESTINATION": str(address.artifacts),
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_LOGGING_LEVEL": "ERROR",
        # A rebuild replaces the file: no connection may outlive a request.
        "MLFLOW_SQLALCHEMYSTORE_POOLCLASS": "NullPool",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
    }
    command = [sys.executable, "-m", "mlflow", "server", "--host", host, "--port", str(port)]
    command += ["--workers", "1", "--uvicorn-opts", "--log-level warning"]
    os.execve(sys.executable, command, environment)


def _check_free(host: str, port: int) -> None:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(found[0], socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(found[4])
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot listen on {host}:{port} ({reason}). Choose another --port.") from None
