"""Journals of finished runs, and what a real MLflow on SQLite says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    from pathlib import Path

    from alignlens.tracking.store import Store


def write(path: Path, values: dict[str, float], experiment: str = "score", **identity: object) -> Path:
    """Journals one finished run."""
    with Journal(path) as journal:
        journal.run(
            experiment=experiment,
            name=f"toy · {path.name.partition('.')[0]}",
            identity={"preset": "demo", "file": path.name, **identity},
            tags={"dataset": "toy", "flag": True},
            params={"size": 10, "names": ["a", "b"], "text": "plain"},
            group="toy · aligners",
        ).metrics(values)
    return path


def client_of(store: Store) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=store.address.uri)


def runs_of(store: Store, experiment: str = "score", groups: bool = False) -> list[Any]:
    """Returns the active runs of an experiment without (or only) the groups, by name."""
    client = client_of(store)
    found = client.get_experiment_by_name(f"alignlens/{experiment}")
    runs = client.search_runs([found.experiment_id])
    chosen = [run for run in runs if ("alignlens.group" in run.data.tags) == groups]
    return sorted(chosen, key=lambda run: str(run.info.run_name))


def counts(result: Any) -> tuple[int, int, int, int, int]:
    assert result.complete, result.problems
    return result.created, result.replaced, result.updated, result.unchanged, result.ended
