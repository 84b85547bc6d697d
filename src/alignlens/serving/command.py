"""How ``mlflow server`` is run: its command line, whom it answers, and whether its port is free.

Nothing that may hold a password is an argument, since everybody on the machine can list those.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import sys
from typing import TYPE_CHECKING

from alignlens.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

_PORT = re.compile("[0-9]{1,5}")
_LAST_PORT = 65535
_LABEL = "[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_MACHINE = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_MACHINE_CHARACTERS = 253
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def port_number(text: str) -> int:
    """Returns the port given by an option."""
    if _PORT.fullmatch(text) is None or not 1 <= int(text) <= _LAST_PORT:
        raise ConfigError(f"--port {text!r}: not a port. Give a whole number from 1 to {_LAST_PORT}.")
    return int(text)


def is_machine(name: str) -> bool:
    """Returns whether ``name`` is a valid host name."""
    return len(name) <= _MACHINE_CHARACTERS and _MACHINE.fullmatch(name) is not None


def check_host(host: str) -> None:
    """Raises for what no server could listen on."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if not is_machine(host):
            raise ConfigError(f"--host {host!r}: neither an address nor a host name.") from None


def is_loopback(host: str) -> bool:
    """Returns whether ``host`` can only be reached from this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def url_of(host: str, port: int) -> str:
    """Returns the address to open in a browser."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def server_command(host: str, port: int, *options: str) -> list[str]:
    """Returns the command of a server with one worker."""
    command = [sys.executable, "-m", "mlflow", "server", "--host", host, "--port", str(port), *options]
    return [*command, "--workers", "1", "--uvicorn-opts", "--log-level warning"]


def server_environment(store: str, artifacts: str) -> dict[str, str]:
    """Returns ours with the store, the place of the files it hands out, and silence."""
    return {
        **os.environ,
        "MLFLOW_BACKEND_STORE_URI": store,
        "MLFLOW_SERVE_ARTIFACTS": "true",
        "MLFLOW_ARTIFACTS_DESTINATION": artifacts,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # four more processes and 2 GB, for nothing we use
        "MLFLOW_LOGGING_LEVEL": "ERROR",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
    }


def guests(names: Sequence[str], port: int) -> dict[str, str]:
    """Returns the variables by which a server answers to this machine's names and to ``names``, and to no other.

    MLflow compares the whole Host header, port included, and lets a page change things only if its origin is on a
    list of its own. Its default list has patterns such as ``10.*``, which names like 10.example.org match as well.
    """
    hosts = [form for name in (*_LOOPBACK, *names) for form in (name, f"{name}:{port}")]
    origins = [form for name in names for form in (f"https://{name}", f"http://{name}:{port}")]
    return {
        "MLFLOW_SERVER_ALLOWED_HOSTS": ",".join(hosts),
        "MLFLOW_SERVER_CORS_ALLOWED_ORIGINS": ",".join(origins),
    }


def check_free(host: str, port: int) -> None:
    """Raises unless a server could listen there."""
    try:
        address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(address[0], socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address[4])
    except (OSError, OverflowError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot listen on {host}:{port} ({reason}). Choose another --port.") from None
