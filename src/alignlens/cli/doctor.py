"""``alignlens doctor``: does everything this project needs work on this machine?"""

from __future__ import annotations

import json
import logging
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from alignlens.aligners.registry import ALIGNERS
from alignlens.errors import AlignlensError
from alignlens.studies.registry import studies
from alignlens.tracking.address import resolve_address

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

_OLDEST_PYTHON = (3, 11)
_DISK_GIB = 5
_NO_CONTROLLER = "Everything runs on this machine alone; to submit jobs, ask whether the controller is up."
_SOURCE = [["das", "haus"], ["das", "buch"], ["ein", "buch"]]
_TARGET = [["the", "house"], ["the", "book"], ["a", "book"]]


@dataclass(frozen=True)
class Check:
    """One line of the list; ``state`` is ``ok``, ``missing`` (not needed here) or ``fail``."""

    what: str
    state: str
    detail: str
    advice: str = ""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("--results", type=Path, default=Path("results"), help="results folder (default: results)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.epilog = (
        "example:\n  alignlens doctor\n\nWorks without a network. Exits with 2 if anything that is needed fails."
    )


def run(args: argparse.Namespace) -> int:
    """Prints every check as it is made; returns 2 if one failed."""
    logging.disable(logging.INFO)  # what the steps tell of three sentence pairs is of no interest
    try:
        return _report(args)
    finally:
        logging.disable(logging.NOTSET)


def _report(args: argparse.Namespace) -> int:
    checks = []
    for check in _checks(args.results):
        checks.append(check)
        if not args.json:
            advice = f"\n      {check.advice}" if check.advice else ""
            print(f"{check.state:>7}  {check.what}: {check.detail}{advice}", flush=True)
    failed = [check for check in checks if check.state == "fail"]
    if args.json:
        print(json.dumps({"ok": not failed, "checks": [asdict(check) for check in checks]}, indent=2))
    return 2 if failed else 0


def _checks(results: Path) -> Iterator[Check]:
    yield _python()
    for package in ("snakemake", "mlflow", "pandas", "numpy", "sentencepiece", "safetensors", "sacrebleu", "sil-thot"):
        yield _package(package)
    yield _torch()
    yield _compiled()
    yield from _extras()
    for name in ALIGNERS:
        yield _aligner(name)
    yield _store(results)
    yield _disk(results)
    yield _slurm()


def _python() -> Check:
    version_here = platform.python_version()
    if sys.version_info[:2] < _OLDEST_PYTHON:
        return Check("Python", "fail", version_here, "Python 3.11 or newer is needed.")
    return Check("Python", "ok", f"{version_here} on {platform.system()}, {os.cpu_count()} cores")


def _package(name: str) -> Check:
    try:
        return Check(name, "ok", version(name))
    except PackageNotFoundError:
        return Check(name, "fail", "not installed", "Run make install.")


def _torch() -> Check:
    try:
        import torch
    except ImportError as error:
        return Check("torch", "fail", f"cannot be imported ({error})", "Run make install.")
    product = float((torch.ones(3, 3) @ torch.ones(3, 3)).sum())
    if product != 27:
        return Check("torch", "fail", f"3 x 3 product sums to {product}", "Reinstall torch.")
    device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "CPU only"
    return Check("torch", "ok", f"{torch.__version__}, {device}")


def _compiled() -> Check:
    from alignlens.attribution.gradients.compiled import library
    from alignlens.attribution.native import level_of

    what, compiled = "compiled steps of attribution", library()
    if compiled is None:
        advice = "Without them, attribution of Transformers takes longer. Run make install where there is a C compiler."
        return Check(what, "missing", "not built, or not for this machine", advice)
    return Check(what, "ok", f"for {level_of(compiled)}")


def _extras() -> Iterator[Check]:
    """Checks what single studies need in addition."""
    for study in studies().values():
        for extra in study.extras:
            try:
                yield Check(extra.what, "ok", ", ".join(f"{name} {version(name)}" for name in extra.packages))
            except PackageNotFoundError as error:
                advice = f"Only study {study.name} needs them: pip install 'alignlens[{extra.extra}]'."
                yield Check(extra.what, "missing", f"{error.name} is not installed", advice)


def _aligner(name: str) -> Check:
    """Trains on three sentence pairs and aligns two."""
    what = f"aligner {name}"
    try:
        from alignlens.aligners.thot_models import StoredAligner, train

        with tempfile.TemporaryDirectory(prefix="alignlens-") as scratch:
            model = Path(scratch) / name
            train(name, _SOURCE, _TARGET, model)
            links = StoredAligner.load(model).align(_SOURCE[:2], _TARGET[:2])
    except (ImportError, AlignlensError) as error:
        return Check(what, "fail", str(error), "Run make install.")
    return Check(what, "ok", f"{links.keys.size} links on two sentences")


def _store(results: Path) -> Check:
    try:
        address = resolve_address(None, results)
        address.check()
    except AlignlensError as error:
        return Check("MLflow store", "fail", str(error), "Journals keep the runs until alignlens track sync works.")
    return Check("MLflow store", "ok", f"{address} answers")


def _disk(results: Path) -> Check:
    folder = next(parent for parent in (results.resolve(), *results.resolve().parents) if parent.exists())
    free = shutil.disk_usage(folder).free / 2**30
    if free < _DISK_GIB:
        return Check("disk", "fail", f"{free:.1f} GiB free", f"At least {_DISK_GIB} GiB should be free.")
    return Check("disk", "ok", f"{free:.0f} GiB free")


def _slurm() -> Check:
    if shutil.which("sinfo") is None:
        return Check("Slurm", "missing", "not on this machine (only needed to submit to a cluster)")
    try:
        answer = subprocess.run(["sinfo", "--noheader"], capture_output=True, text=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        return Check("Slurm", "missing", "sinfo does not answer", _NO_CONTROLLER)
    if answer.returncode != 0:
        reason = next(iter(answer.stderr.strip().splitlines()), f"sinfo exits with {answer.returncode}")
        return Check("Slurm", "missing", reason, _NO_CONTROLLER)
    try:
        plugin = version("snakemake-executor-plugin-slurm")
    except PackageNotFoundError:
        return Check(
            "Slurm", "missing", "the controller answers, Snakemake has no plugin", "pip install 'alignlens[cluster]'"
        )
    return Check("Slurm", "ok", f"{len(answer.stdout.splitlines())} partition lines in sinfo, executor plugin {plugin}")
