"""The rooms and their order: imports follow the data flow and heavy libraries stay where they belong."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

# Left may never import right.
ORDER = [
    "io", "corpora", "subwords", "alignment", "aligners", "metrics", "models", "decoding", "training", "attribution",
    "recipes", "classification", "toys", "encoders", "results", "display", "studies", "tracking", "serving", "report",
    "api", "cli",
]  # fmt: skip
BASE = {"errors", "__init__"}
# The workflow turns a configuration into runs: it may use registries, and only the command line uses it.
REGISTRIES = {
    "corpora.registry", "corpora.settings", "subwords.settings", "alignment.extractions", "alignment.symmetrizations",
    "aligners.registry", "aligners.settings", "metrics.settings", "models.base_settings", "models.t5_settings",
    "models.settings", "models.foreign", "decoding.settings",
    "training.settings", "training.presets", "training.objectives.registry",
    "attribution.registry", "attribution.settings", "attribution.passes", "attribution.spec", "encoders.folders",
    "results.manifest", "results.paths", "results.protocol", "studies.contract", "studies.registry", "studies.requests",
    "tracking.settings", "classification.settings", "toys.settings", "corpora.labelled",
}  # fmt: skip
WORKFLOW = "workflow"
SETTINGS = {
    "workflow.configuration", "workflow.settings", "workflow.requested", "workflow.plan", "workflow.attribution_plan",
    "workflow.learning_plan", "workflow.study_plan",
    "workflow.costs",
}  # fmt: skip
ONLY_IN = {
    "mlflow": {"tracking"},
    "matplotlib": {"display", "report", "studies"},
    "sentencepiece": {"subwords"},
    "thot": {"aligners"},
    "sklearn": {"classification"},
    "torch": {"models", "decoding", "training", "attribution", "recipes", "classification", "toys", "encoders", "cli"},
    "safetensors": {"models"},
    "transformers": {"encoders"},
}
# Plain data that a configuration is made of: reading one must not load a tensor library.
PLAIN = {*SETTINGS, *REGISTRIES, "workflow.costs.jobs", "workflow.costs.growth"}
LONGEST_MODULE = 350


def modules(project: Path) -> list[tuple[str, Path]]:
    root = project / "src" / "alignlens"
    return [(path.relative_to(root).with_suffix("").as_posix().replace("/", "."), path) for path in root.rglob("*.py")]


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def room_of(module: str) -> str:
    return module.split(".")[0]


def test_imports_follow_the_flow(project: Path) -> None:
    for name, path in modules(project):
        room = room_of(name)
        for other in imported(path):
            if not other.startswith("alignlens."):
                continue
            target = other.removeprefix("alignlens.")
            target_room = room_of(target)
            if target_room in BASE or room == target_room or room in ("cli", "__main__"):
                continue
            if room == WORKFLOW:
                allowed = target in {*REGISTRIES, "tracking.address"} or target_room == "io"
            else:
                allowed = target_room in ORDER and room in ORDER and ORDER.index(target_room) < ORDER.index(room)
            assert allowed, f"{name} may not import {target}"


def test_heavy_libraries_stay_in_their_room(project: Path) -> None:
    for name, path in modules(project):
        for other in imported(path):
            rooms = ONLY_IN.get(other.split(".")[0])
            assert rooms is None or room_of(name) in rooms, f"{name} imports {other}"


def test_the_command_line_imports_torch_inside_functions_only(project: Path) -> None:
    for name, path in modules(project):
        if room_of(name) == "cli":
            top = ast.parse(path.read_text(encoding="utf-8")).body
            names = {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names}
            names |= {node.module or "" for node in top if isinstance(node, ast.ImportFrom)}
            assert not any(other.split(".")[0] == "torch" for other in names), name


def test_modules_stay_readable(project: Path) -> None:
    for name, path in modules(project):
        lines = len(path.read_text(encoding="utf-8").splitlines())
        assert lines <= LONGEST_MODULE, f"{name} has {lines} lines; split it by concept"


def not_loaded(modules: list[str], heavy: set[str]) -> None:
    code = (
        f"import sys, {', '.join(f'alignlens.{module}' for module in modules)}\n"
        f"loaded = {heavy!r} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("verb", ["score", "symmetrize", "aligner", "data", "subwords", "plan", "track"])
def test_a_short_step_does_not_load_what_it_does_not_use(verb: str) -> None:
    not_loaded([f"cli.{verb}"], {"torch", "mlflow", "pandas", "matplotlib", "snakemake", "thot", "sacrebleu"})


@pytest.mark.parametrize("verb", ["train", "translate", "force", "encoder", "cost", "calibrate"])
def test_asking_a_long_step_for_help_does_not_load_torch(verb: str) -> None:
    not_loaded([f"cli.{verb}"], {"torch", "mlflow", "pandas", "matplotlib", "sacrebleu"})


def test_reading_a_configuration_does_not_load_torch() -> None:
    not_loaded(sorted(PLAIN), {"torch", "numpy", "mlflow", "pandas", "matplotlib"})
