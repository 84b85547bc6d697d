"""The MLflow store: the only importer of mlflow.

``Tracker`` is the narrow door to MLflow; ``Store`` is what the command line uses. What to write is decided in
``alignlens.tracking.reconcile``.
"""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alignlens.errors import ToolError
from alignlens.tracking.address import Address
from alignlens.tracking.events import escaped
from alignlens.tracking.experiments import experiment_tags
from alignlens.tracking.reconcile import KEPT, OURS, PREFIX, Reconciliation, RefusedError, SyncResult, load_records
from alignlens.tracking.staging import staged_artifacts
from alignlens.tracking.terminating import unwinding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from mlflow import MlflowClient

    from alignlens.tracking.records import Artifact, Point

_PAGE = 1000
_METRICS = 800
_PARAMS = 100
_REFUSALS = ("INVALID_PARAMETER_VALUE", "BAD_REQUEST")
_REFUSING = (400, 413, 414, 422)  # answers of a web server that would be the same on another try
_QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "GIT_PYTHON_REFRESH": "quiet",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",  # it logs tracebacks of errors that it also raises
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "60",  # a server that answers may be serving fifty machines
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
}


@dataclass(frozen=True)
class StoredRun:
    """A run as the tracker has it; times in milliseconds."""

    id: str
    status: str
    start: int
    end: int
    tags: Mapping[str, str]


class Tracker:
    """An open MLflow store, reduced to what we use. Times are passed in seconds."""

    def __init__(self, client: MlflowClient, address: Address) -> None:
        self._client, self._address = client, address
        self._strange: dict[str, str] = {}

    def experiments(self) -> dict[str, str]:
        """Returns the ids of our experiments by name; a deleted one comes back, since its runs are needed.

        Experiments made by an older version also get their description and view; what people wrote stays.
        """
        from mlflow.entities import ViewType

        ids: dict[str, str] = {}
        token = None
        while True:
            page = self._client.search_experiments(
                ViewType.ALL, max_results=_PAGE, filter_string=f"name LIKE '{PREFIX}%'", page_token=token
            )
            for experiment in page:
                if experiment.lifecycle_stage != "active":
                    self._client.restore_experiment(experiment.experiment_id)
                name = experiment.name.removeprefix(PREFIX)
                ids[name] = experiment.experiment_id
                if self._address.was_moved(experiment.artifact_location):
                    self._strange[experiment.experiment_id] = experiment.artifact_location
                for key, value in experiment_tags(name).items():
                    if key not in experiment.tags:
                        self._client.set_experiment_tag(experiment.experiment_id, key, value)
            token = page.token
            if not token:
                return ids

    def create_experiment(self, name: str) -> str:
        """Returns the id of a new experiment whose files lie where the address says, or of one made meanwhile."""
        from mlflow.exceptions import MlflowException

        root = self._address.artifacts
        location = None if root is None else (root / PREFIX / name).as_uri()
        # Without this tag MLflow's UI takes it for a chat application and shows no runs at first.
        tags = {"mlflow.experimentKind": "custom_model_development", **experiment_tags(name)}
        try:
            with self._refusals():
                return str(self._client.create_experiment(PREFIX + name, artifact_location=location, tags=tags))
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        return self.experiments()[name]  # another machine was faster

    def runs(self, experiment: str, condition: str) -> Iterator[StoredRun]:
        """Yields the active runs that fulfil an MLflow filter."""
        token = None
        while True:
            page = self._client.search_runs([experiment], condition, max_results=_PAGE, page_token=token)
            for run in page:
                info = run.info
                yield StoredRun(info.run_id, info.status, info.start_time or 0, info.end_time or 0, run.data.tags)
            token = page.token
            if not token:
                return

    def check_place(self, experiment: str) -> None:
        """Raises if the files of new runs would go somewhere else: a copied store still names its old folder."""
        if experiment in self._strange:
            raise ToolError(
                f"{self._address}: was moved or copied; its files still go to {escaped(self._strange[experiment])}. "
                "Rebuild it: alignlens track rebuild."
            )

    def status(self, run: str) -> str:
        """Returns the present status of a run."""
        return str(self._client.get_run(run).info.status)

    def create_run(self, experiment: str, name: str, start: float, tags: Mapping[str, str]) -> str:
        """Returns the id of a new run with status RUNNING."""
        with self._refusals():
            run = self._client.create_run(experiment, _milliseconds(start), dict(tags), run_name=name)
        return str(run.info.run_id)

    def log(self, run: str, params: Mapping[str, str], points: Sequence[Point], tags: Mapping[str, str]) -> None:
        """Adds to a run in as few calls as MLflow allows, the tags last. What it has already is not doubled."""
        from mlflow.entities import Metric, Param, RunTag

        entries = [Param(name, value) for name, value in params.items()]
        metrics = [Metric(point.name, point.value, _milliseconds(point.time), point.step) for point in points]
        with self._refusals():
            while len(entries) > _PARAMS or len(metrics) > _METRICS:
                self._client.log_batch(run, metrics[:_METRICS], entries[:_PARAMS])
                del metrics[:_METRICS], entries[:_PARAMS]
            marks = [RunTag(name, value) for name, value in tags.items()]
            self._client.log_batch(run, metrics, entries, marks)

    def add_files(self, run: str, artifacts: Sequence[Artifact], first: int, root: Path) -> None:
        """Uploads the artifacts from number ``first`` on, as far as they lie below ``root``."""
        with staged_artifacts(artifacts, root, first) as folder, self._refusals():
            self._client.log_artifacts(run, str(folder))

    def set_tag(self, run: str, name: str, value: str) -> None:
        """Sets one tag."""
        with self._refusals():
            self._client.set_tag(run, name, value)

    def end_run(self, run: str, status: str, end: float) -> None:
        """Sets the final status and end of a run."""
        with self._refusals():
            self._client.set_terminated(run, status, end_time=_milliseconds(end))

    def delete_run(self, run: str) -> None:
        """Hides a run, as the UI's delete does."""
        self._client.delete_run(run)

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        from mlflow.exceptions import MlflowException
        from requests import HTTPError

        try:
            yield
        except (MlflowException, HTTPError) as error:
            if not _is_refusal(error):
                raise
            raise RefusedError(f"the tracker refuses it ({self._address.hide(str(error))}).") from None


class Store:
    """One MLflow store. If the tracker is down, damaged or gone, the result is incomplete; nothing is raised."""

    def __init__(self, address: Address | str, results: Path | None = None) -> None:
        """``results``: the folder that files may come from. Without it each journal has only its own folder."""
        self.address = Address(address) if isinstance(address, str) else address
        self._results = results
        self._is_checked = False
        # Points and files already sent to a run by this object, so that a live stream sends each once.
        self._sent: dict[str, tuple[int, int]] = {}

    def sync(self, journals: Iterable[Path], *, live: bool = False) -> SyncResult:
        """Brings the store up to date with the journals; ``live`` marks the runs as streamed by this process."""
        result = SyncResult()
        records = load_records(journals, result)
        try:
            with self.address.turn(), self._tracker() as tracker:
                Reconciliation(tracker, self._sent, result, live, self._results).run(records)
        except ToolError as error:
            result.reached = False
            result.problems.append(str(error))
        return result

    def rebuild(self, journals: Iterable[Path]) -> SyncResult:
        """Rebuilds the store. A SQLite file is replaced only by a complete new one and kept as ``*.bak``;
        on a server the runs of the presets that the journals belong to are deleted first."""
        paths = list(journals)
        reading = SyncResult()
        presets = {record.preset for record in load_records(paths, reading)}
        try:
            if not presets:
                raise ToolError(f"{self.address}: there is no journal to rebuild it from. {KEPT}")
            if self.address.database is not None:
                return self._rebuild_sqlite(self.address.database, paths)
            with self.address.turn(), self._tracker() as tracker:
                for experiment in tracker.experiments().values():
                    for run in list(tracker.runs(experiment, OURS)):
                        if run.tags.get("preset", "") in presets:
                            tracker.delete_run(run.id)
        except ToolError as error:
            return SyncResult(reached=False, problems=[*reading.problems, str(error)])
        return self.sync(paths)

    def _rebuild_sqlite(self, database: Path, journals: list[Path]) -> SyncResult:
        from alignlens.tracking.renewal import renew

        def build(fresh: Path) -> SyncResult:
            result = Store(f"sqlite:///{fresh}", self._results).sync(journals)
            if not result.reached:
                result.problems[-1] = f"{result.problems[-1].replace(fresh.name, database.name)} {KEPT}"
            return result

        try:
            with unwinding(), self.address.turn():
                return renew(database, build)
        except OSError as error:
            raise ToolError(f"{self.address}: cannot be rebuilt ({self.address.hide(str(error))}). {KEPT}") from None

    @contextmanager
    def _tracker(self) -> Iterator[Tracker]:
        """Yields the open store; any failure of the tracker becomes a one-line ``ToolError``."""
        self.address.check(thorough=not self._is_checked)
        self._is_checked = True
        _silence(self.address)
        from alembic.util import CommandError
        from google.protobuf.json_format import ParseError
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError

        try:
            client: Any = MlflowClient(tracking_uri=self.address.uri, registry_uri=self.address.uri)
            yield Tracker(client, self.address)
        # ImportError: the driver of the database that the URI names is not installed.
        # ParseError: what answers is not MLflow.
        except (MlflowException, SQLAlchemyError, CommandError, OSError, ImportError, ParseError) as error:
            reason = self.address.hide(str(error))
            raise ToolError(f"{self.address}: the tracker failed ({type(error).__name__}: {reason}).") from None


def _is_refusal(error: Exception) -> bool:
    """Returns whether an error concerns one run only, not the store and so all other runs."""
    from requests import HTTPError
    from sqlalchemy.exc import DatabaseError, DataError, IntegrityError

    if isinstance(error, HTTPError):
        return error.response is not None and error.response.status_code in _REFUSING
    cause = error.__cause__
    if isinstance(cause, DatabaseError) and not isinstance(cause, DataError | IntegrityError):
        return False
    return getattr(error, "error_code", None) in _REFUSALS


def _silence(address: Address) -> None:
    """MLflow reads these when it is imported; what the user has set stays."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"  # the URL may hold a password
    logging.getLogger("alembic").setLevel(logging.ERROR)
    if address.database is not None:
        # A pooled connection would keep writing into a file that a rebuild has replaced.
        os.environ.setdefault("MLFLOW_SQLALCHEMYSTORE_POOLCLASS", "NullPool")


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
