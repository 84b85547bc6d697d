"""Shows a job in MLflow while it runs: starts the side process, without loading MLflow itself."""

from __future__ import annotations

import os
import sys
from pathlib import Path

EVERY_SECONDS = 3.0


def start_live(journal: Path, uri: str, every: float = EVERY_SECONDS) -> None:
    """Starts the side process. The URI may hold a password: it goes through the environment, not through the
    arguments that everybody on the machine can list."""
    command = [sys.executable, "-m", "alignlens.tracking.live", str(journal.absolute())]
    command += ["--parent", str(os.getpid()), "--every", str(every), "--results", str(trusted_root(journal))]
    environment = {**os.environ, "MLFLOW_TRACKING_URI": uri, "OMP_NUM_THREADS": "1"}
    silence = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    try:
        # Not subprocess.Popen: its objects must be waited for, and nothing here waits.
        os.posix_spawn(sys.executable, command, environment, file_actions=silence, setsid=True)
    except (OSError, NotImplementedError) as error:
        import logging  # not at the top: every job loads this module, but hardly any gets here

        logging.getLogger(__name__).warning("no live view of this run (%s)", error)


def trusted_root(journal: Path) -> Path:
    """Returns the folder whose files may be shown: the results of this project, or only that of the journal."""
    results = Path(os.path.realpath("results"))
    place = Path(os.path.realpath(journal.parent))
    return results if place.is_relative_to(results) else place
