"""``alignlens ui``: the MLflow UI on all runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from alignlens.cli.track import summary, warn
from alignlens.errors import ConfigError
from alignlens.serving.command import (
    check_free,
    check_host,
    guests,
    is_loopback,
    port_number,
    server_command,
    server_environment,
    url_of,
)
from alignlens.tracking.address import resolve_address
from alignlens.tracking.records import find_journals

if TYPE_CHECKING:
    import argparse

    from alignlens.tracking.address import Address

_EPILOG = """example:
  alignlens ui --results results --port 5000

Brings the store up to date, prints the address and serves until Ctrl-C.
For a server (--uri http://...) it only prints the address to open."""
# MLflow opens the page of chat applications, which shows no runs, and no setting of the server changes that.
_WHERE = "press Model training, top left, then Experiments; docs/tracking.md shows how to compare runs"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.epilog = _EPILOG
    parser.add_argument("--results", type=Path, default=Path("results"), help="results folder (results)")
    parser.add_argument("--uri", help="tracking URI (MLFLOW_TRACKING_URI, else results/mlflow.db)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", default="5000", help="port to listen on (5000)")
    parser.add_argument("--no-sync", action="store_true", help="serve the store as it is")


def run(args: argparse.Namespace) -> int | None:
    """Syncs, then becomes the MLflow server."""
    port = port_number(args.port)
    check_host(args.host)
    address = resolve_address(args.uri, args.results)
    if not address.is_server:
        if not is_loopback(args.host):
            raise ConfigError(
                f"--host {args.host}: others could change your runs, since no password is asked for. "
                f"Forward the port (ssh -L {port}:127.0.0.1:{port}) or use alignlens server up --auth."
            )
        check_free(args.host, port)
    if not args.no_sync:
        from alignlens.tracking.store import Store

        unread: list[str] = []
        result = Store(address, args.results).sync(find_journals(args.results, skipped=unread))
        result.problems[:0] = unread
        warn(result, "alignlens ui")
        if not result.reached:
            return 2
        print(summary(result, address), file=sys.stderr)
    elif not address.is_server:
        address.check()
    if address.is_server:
        print(f"open {address}")
        return 0
    print(_WHERE, file=sys.stderr)
    return _serve(address, args.host, port)


def _serve(address: Address, host: str, port: int) -> NoReturn:
    print(f"open {url_of(host, port)} (Ctrl-C stops it)", flush=True)
    environment = server_environment(address.uri, str(address.artifacts))
    # A rebuild replaces the file, so no connection may outlive a request.
    environment["MLFLOW_SQLALCHEMYSTORE_POOLCLASS"] = "NullPool"
    environment |= guests([], port)
    os.execve(sys.executable, server_command(host, port), environment)
