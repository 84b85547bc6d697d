"""Environment variables of pipeline steps: settings that change no result, and so are not parameters."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from alignlens.tracking.address import resolve_address
from alignlens.workflow.code_version import commit_of

if TYPE_CHECKING:
    from alignlens.workflow.settings import Settings

# Training makes and frees large tensors all the time. glibc gives each back to the system, which then has to clear
# the pages for the next one; kept instead, they cost a tenth less time. Other C libraries ignore this.
_KEPT_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str((1 << 31) - 1)}


def step_environment(settings: Settings, project: Path) -> dict[str, str]:
    """Returns the variables to set: this checkout's code with the Python that runs Snakemake, tracker, mirror."""
    paths = [str(project / "src"), os.environ.get("PYTHONPATH", "")]
    variables = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "MLFLOW_TRACKING_URI": resolve_address(settings.tracking.uri, Path("results")).uri,
        "ALIGNLENS_COMMIT": commit_of(project),
        **_KEPT_MEMORY,
    }
    if settings.mirror:
        variables["ALIGNLENS_MIRROR"] = settings.mirror
    return variables
