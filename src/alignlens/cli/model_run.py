"""Names of the runs of steps with a trained model (translate, force, bleu)."""

from __future__ import annotations

from typing import Any

from alignlens.cli.about import run_name


def model_run(about: dict[str, Any], step: str) -> dict[str, Any]:
    """Returns experiment, name (``demo · xa-xb · transformer · s1 · translate``), identity, tags and group."""
    seed = f"s{about['seed']}" if "seed" in about else None
    return {
        "experiment": step,
        "name": run_name(about.get("dataset"), about.get("direction"), about.get("model"), seed, step),
        "identity": about,
        "tags": {"step": step, **{key: str(value) for key, value in about.items()}},
        "group": about.get("dataset"),
    }
