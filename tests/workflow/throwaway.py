"""A throw-away copy of the project in which snakemake really runs, on a corpus of a few hundred sentences."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from alignlens.io.locks import held
from alignlens.studies.registry import studies

Run = dict[str, Any]
PARTS = ("Snakefile", "rules", "config", "envs", "profiles", "report", "src")
BRIEFLY = {"max_updates": 30, "validate_every": 15}
COPY = {"dim": 8, "hidden": 8, "batch": 4, "steps": 10, "evaluate_samples": 20, "seeds": 2}
TINY: dict[str, Any] = {
    "preset": "tiny",
    "datasets": ["tiny"],
    "custom_datasets": {
        "tiny": {"kind": "synthetic", "pair": ["xa", "xb"], "settings": {"train": 300, "dev": 20, "test": 30}}
    },
    "subwords": {"kind": "joint", "vocab": 350},
    "models": {
        "transformer": {"preset": "demo_transformer", "training": BRIEFLY},
        "lstm": {"preset": "demo_lstm", "training": BRIEFLY},
        "fconv": None,
    },
    "aligners": [
        {"name": "fast_align", "text": "offline"},
        {"name": "fast_align", "text": "online"},
        {"name": "hmm", "text": "offline", "max_pairs": 200},
        {"name": "eflomal", "text": "offline"},
    ],
    "studies": {
        "ding2019": {"sigmas": [0.15], "samples_curve": [1, 3], "noise_seeds": [1]},
        "kobayashi2020": {"encoders": {"models": {"minilm": "minilm"}, "sequences": 4}},
        "snell2021": {
            "checkpoints": [0, 10, 20],
            "training": {"max_updates": 20, "validate_every": 10},
            "train_items": 10,
            "dev_items": 20,
            "classifier_seeds": [1, 2],
            "classifier_checkpoints": [0, 10],
            "classifier": {"model": {"embedding": 8, "hidden": 8}, "training": {"updates": 20}},
            "proxy": {"model": {"embedding": 8}, "training": {"epochs": 1}},
            "toys": {
                "permutation": {**COPY, "words": 4},
                "control": {**COPY, "words": 4, "pool": 6},
                "keyword": {**COPY, "words": 6, "near_end": 2},
                "mixture": None,
                "permuted_copy": None,
                "heads": None,
            },
        },
        "voita2020": {
            "training": {"max_updates": 20, "validate_every": 10},
            "pairs": [50, 100, 200],
            "sentences": 6,
            "snapshots": [5, 10, 20],
            "minimum_risk": {"max_updates": 2, "validate_every": 1, "keep": "last", "objective": {"samples": 3}},
        },
        "lu2021": {
            "training": {"max_updates": 10, "validate_every": 5},
            "fusions": ["fixed", "gate"],
            "alphas": [0.1, 0.3],
            "pairs": [],
            "sentences": 12,
        },
    },
    "attribution": {
        "samples": 3,
        "methods": ["attention,layer=0,head=0"],
        "cost_sentences": 5,
        "masks": {"updates": 6, "training": {"batch_tokens": 400, "validate_every": 3}},
    },
    "interval": {"samples": 100},
    "heatmaps": 1,
}


@dataclass(frozen=True)
class Workspace:
    """A copy of the project with a configuration of its own."""

    folder: Path

    @property
    def results(self) -> Path:
        return self.folder / "results" / "tiny"

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "snakemake", "--configfile", "tiny.yaml", *arguments]

    def snakemake(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*arguments), cwd=self.folder, env=environment(), capture_output=True, text=True, check=False
        )
        if check and done.returncode != 0:
            pytest.fail(f"snakemake {' '.join(arguments)} exited with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done

    def alignlens(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "alignlens", *arguments]
        return subprocess.run(command, cwd=self.folder, env=environment(), capture_output=True, text=True, check=False)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Starts snakemake in a process group of its own."""
        with (self.folder / "started.log").open("w") as log:
            return subprocess.Popen(
                self.command(*arguments),
                cwd=self.folder,
                env=environment(),
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def stable_files(self) -> dict[str, bytes]:
        """The results that must not depend on when, how often or on how many cores they were made."""
        patterns = (
            "data/**/*.source",
            "data/**/*.target",
            "data/**/*.gold",
            "pieces/**/*.source",
            "links/**/*.pharaoh",
        )
        patterns += ("models/**/model/weights.safetensors", "models/**/model/curves.csv")
        patterns += ("models/**/masks/weights.safetensors",)
        patterns += ("translations/**/test.txt", "translations/**/bleu.json", "translations/**/forced.tsv")
        patterns += ("translations/**/test.pieces", "translations/**/test.tokens/*.bin", "tokens/**/*.bin")
        patterns += ("attributions/**/matrices/*.f32", "attributions/**/links/*", "attributions/**/metrics.json")
        patterns += ("attributions/**/sentences.npz",)
        patterns += ("free/**/reference.gold", *(f"{study}/*.csv" for study in studies()))
        patterns += ("trajectories/**/*.f32", "classification/**/*.f32", "classification/**/weights.safetensors")
        patterns += ("calibration/**/*.json", "calibration/**/*.npz", "comparisons/**/*.json")
        patterns += ("agreement/**/agreement.json", "toys/*.json", "counts/**/*.json")
        patterns += ("scores/**/metrics.json", "scores/**/sentences.npz", "report/aer.tex", "report/heatmap-*.svg")
        patterns += ("browser/index.html", "browser/data/*.js")
        found = [path for pattern in patterns for path in self.results.glob(pattern)]
        return {str(path.relative_to(self.results)): path.read_bytes() for path in sorted(found)}

    def dry_run(self, *arguments: str) -> dict[str, int]:
        """The rules that would run, and how many jobs of each."""
        told = self.snakemake("--cores", "all", "--dry-run", *arguments).stdout
        counts = dict(re.findall(r"^(\w+) +(\d+)$", told, flags=re.MULTILINE))
        return {rule: int(count) for rule, count in counts.items() if rule not in ("total", "all")}

    def statuses(self) -> set[str]:
        """The statuses of the runs of the store, read without starting MLflow."""
        with closing(sqlite3.connect(self.folder / "results" / "mlflow.db")) as store:
            return {status for (status,) in store.execute("select status from runs")}

    def mlflow_runs(self, uri: str = "sqlite:///results/mlflow.db") -> list[Run]:
        """Every run of the store: key, status, name, number of metrics."""
        script = (
            "import json, mlflow, sys\n"
            "client = mlflow.MlflowClient(sys.argv[1])\n"
            "ids = [e.experiment_id for e in client.search_experiments() if e.name.startswith('alignlens/')]\n"
            "runs = client.search_runs(ids, max_results=5000)\n"
            "print(json.dumps([{'key': r.data.tags['alignlens.key'], 'status': r.info.status,\n"
            "    'name': r.info.run_name, 'group': 'alignlens.group' in r.data.tags,\n"
            "    'metrics': r.data.metrics} for r in runs]))\n"
        )
        command = [sys.executable, "-c", script, uri]
        done = subprocess.run(command, cwd=self.folder, env=environment(), capture_output=True, text=True, check=True)
        runs: list[Run] = json.loads(done.stdout.splitlines()[-1])
        return runs


def environment() -> dict[str, str]:
    """The environment of a user who has set nothing."""
    ours = ("ALIGNLENS", "MLFLOW", "OMP", "PYTEST", "SNAKEMAKE")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    return {**kept, "MLFLOW_DISABLE_TELEMETRY": "true"}


def run_once(folder: Path, project: Path, config: dict[str, Any]) -> Workspace:
    """Returns a workspace in which everything has run, by the first worker that asks; others wait for it."""
    made, done = Workspace(folder / "project"), folder / "done"
    with held(folder.with_suffix(".lock"), "runs the workflow"):
        if not done.exists():
            assert not made.folder.exists(), "the workflow has failed before"
            make_workspace(made.folder, project, config).snakemake("--cores", "all")
            done.touch()
    return made


def make_workspace(folder: Path, project: Path, config: dict[str, Any] = TINY) -> Workspace:
    folder.mkdir(parents=True)
    for part in PARTS:
        source = project / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(source, folder / part)
    (folder / "tiny.yaml").write_text(yaml.safe_dump(config))
    return Workspace(folder)


def kill_group(process: subprocess.Popen[str]) -> None:
    """Kills snakemake and every job it started, as a power cut would."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
