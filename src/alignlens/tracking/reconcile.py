"""What must change in a tracker so that it agrees with the journals. This decides; ``store`` talks to MLflow.

One tracker run per key. A run whose journal has nothing new is left alone; one that is still being written is
continued in place; any other is replaced. Doing it twice changes nothing.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from alignlens.errors import InputError, ToolError
from alignlens.tracking.journal import canonical, run_key
from alignlens.tracking.records import FINISHED, KILLED, RUNNING, RunRecord, is_alive, left_by_dead, read_journal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from alignlens.tracking.store import StoredRun, Tracker

KEY, DIGEST, ATTEMPT = "alignlens.key", "alignlens.journal", "alignlens.attempt"
SOURCE, LIVE, GROUP = "alignlens.source", "alignlens.live", "alignlens.group"
PARENT = "mlflow.parentRunId"
PREFIX = "alignlens/"
KEPT = "The old store stays as it is."
OURS = f"tags.`{KEY}` LIKE '%'"

_FEW = 12
_NAME_CHARACTERS = 250  # what MLflow's databases take
_TAG_CHARACTERS = 8000


class RefusedError(ToolError):
    """The tracker works but rejects this run."""


@dataclass
class SyncResult:
    """The result of a sync. ``reached`` is false if the store could not be used; nothing is lost, sync again."""

    created: int = 0
    replaced: int = 0
    updated: int = 0
    unchanged: int = 0
    ended: int = 0
    reached: bool = True
    problems: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Returns whether the store now has everything in the journals."""
        return self.reached and not self.problems

    @property
    def changed(self) -> int:
        """The number of runs that were written."""
        return self.created + self.replaced + self.updated + self.ended


def load_records(journals: Iterable[Path], result: SyncResult) -> list[RunRecord]:
    """Returns the records with their true status; of two records with one key the later one counts."""
    records: dict[str, RunRecord] = {}
    for path in journals:
        try:
            records_of_file = read_journal(path)
            if any(record.status == RUNNING and not is_alive(record) for record in records_of_file):
                records_of_file = read_journal(path)  # it may have ended properly just before we looked for the process
        except InputError as error:
            result.problems.append(str(error))
            continue
        for record in records_of_file:
            if record.status == RUNNING and not is_alive(record):
                record.status = KILLED
            if record.key not in records or records[record.key].start < record.start:
                records[record.key] = record
    return list(records.values())


class Reconciliation:
    """One pass over the records with an open tracker; counts into ``result``."""

    def __init__(
        self,
        tracker: Tracker,
        sent: dict[str, tuple[int, int]],
        result: SyncResult,
        live: bool,
        results: Path | None = None,
    ) -> None:
        """``sent``: how many points and files of a run the caller has sent before; ``results``: see ``Store``."""
        self._tracker, self._sent = tracker, sent
        self._result, self._live, self._results = result, live, results
        self._runs: dict[str, list[StoredRun]] = {}
        self._groups: dict[str, list[StoredRun]] = {}
        self._parents: dict[str, str] = {}

    def run(self, records: list[RunRecord]) -> None:
        """Writes the records, then ends what no living process will end."""
        groups: dict[str, list[RunRecord]] = {}
        for record in records:
            if record.group is not None:
                groups.setdefault(_group_key(record), []).append(record)
        experiments = self._tracker.experiments()
        for name in sorted({record.experiment for record in records} - experiments.keys()):
            members = [record for record in records if record.experiment == name]
            with self._refusals(members):
                experiments[name] = self._tracker.create_experiment(name)
        keys = [*(record.key for record in records), *groups]
        for run in self._existing(experiments, records, keys):
            runs_by_key = self._groups if GROUP in run.tags else self._runs
            runs_by_key.setdefault(run.tags[KEY], []).append(run)
        for key, members in groups.items():
            if members[0].experiment in experiments:
                with self._refusals(members):
                    self._parents[key] = self._ensure_group(key, members, experiments[members[0].experiment])
        before = self._result.changed
        for record in records:
            if self._has_place(record, experiments):
                with self._refusals([record]):
                    self._place(record, experiments[record.experiment])
        if self._result.changed != before:
            for key in self._parents:
                self._end_group(key, groups[key])
        if not self._live:
            self._sweep(set(keys))
            self._drop_empty_groups(records)

    @contextmanager
    def _refusals(self, records: list[RunRecord]) -> Iterator[None]:
        """Notes for every record of the block that the tracker rejects it; the others continue."""
        try:
            yield
        except RefusedError as error:
            self._result.problems += [f"{record.journal}: {record.name}: {error}" for record in records]

    def _has_place(self, record: RunRecord, experiments: dict[str, str]) -> bool:
        """Returns whether the tracker has accepted the experiment and the group of a record."""
        return record.experiment in experiments and (record.group is None or _group_key(record) in self._parents)

    def _existing(self, experiments: dict[str, str], records: list[RunRecord], keys: list[str]) -> Iterator[StoredRun]:
        """Yields what the tracker has: one search per experiment, or for a live stream one per key."""
        if self._live and len(keys) <= _FEW:
            for name in {record.experiment for record in records} & experiments.keys():
                for key in keys:
                    yield from self._tracker.runs(experiments[name], f"tags.`{KEY}` = '{key}'")
        else:
            for experiment in experiments.values():
                yield from self._tracker.runs(experiment, OURS)

    def _place(self, record: RunRecord, experiment: str) -> None:
        runs = sorted(self._runs.get(record.key, []), key=lambda run: _likeness(run, record))
        for extra in runs[:-1]:
            self._tracker.delete_run(extra.id)
        if not runs:
            self._tracker.check_place(experiment)
            self._create(record, experiment)
            self._result.created += 1
            return
        run = runs[-1]
        if run.tags.get(DIGEST) == record.digest and run.status == record.status:
            self._adopt(record, run)
            self._result.unchanged += 1
        elif run.tags.get(ATTEMPT) == record.attempt and run.status == RUNNING:
            self._adopt(record, run)
            if record.status == RUNNING and LIVE in run.tags and not self._live:
                self._result.unchanged += 1  # its own side process is writing it
            else:
                self._tracker.check_place(experiment)
                self._upload(record, run.id)
                self._result.updated += 1
        else:
            self._tracker.check_place(experiment)
            self._create(record, experiment)  # first: if the tracker refuses it, the old one is still there
            self._tracker.delete_run(run.id)
            self._result.replaced += 1

    def _create(self, record: RunRecord, experiment: str) -> None:
        run = self._tracker.create_run(experiment, record.name[:_NAME_CHARACTERS], record.start, self._tags(record))
        try:
            self._upload(record, run)
        except RefusedError:
            self._tracker.delete_run(run)  # half a run would look like one that is still running
            raise

    def _tags(self, record: RunRecord) -> dict[str, str]:
        tags = {"preset": record.preset} | {name: _text(value) for name, value in record.tags.items()}
        tags |= {
            KEY: record.key,
            ATTEMPT: record.attempt,
            SOURCE: str(record.journal.absolute()),
            "version": record.version,
            "commit": record.commit,
            "mlflow.source.name": f"alignlens {record.experiment}",
            "mlflow.source.type": "LOCAL",
        }
        if record.group is not None:
            tags[PARENT] = self._parents[_group_key(record)]
        return {name: value[:_TAG_CHARACTERS] for name, value in tags.items() if value}

    def _adopt(self, record: RunRecord, run: StoredRun) -> None:
        """Hangs a run under its group again if the group was deleted."""
        parent = self._parents.get(_group_key(record))
        if parent is not None and run.tags.get(PARENT) != parent:
            self._tracker.set_tag(run.id, PARENT, parent)

    def _upload(self, record: RunRecord, run: str) -> None:
        """Sends what has not been sent yet; the status goes last, it marks a complete run."""
        points, files = self._sent.get(run, (0, 0))
        if files < len(record.artifacts):
            self._tracker.add_files(run, record.artifacts, files, self._results or record.journal.parent)
        params = {} if points else {name: _text(value) for name, value in sorted(record.params.items())}
        tags = {DIGEST: record.digest, "status": record.status}
        if self._live:
            tags[LIVE] = "true"
        if record.error:
            error = record.error[:_TAG_CHARACTERS]
            tags |= {"error": error, "mlflow.note.content": error}
        self._tracker.log(run, params, record.points[points:], tags)
        if record.status != RUNNING:
            self._tracker.end_run(run, record.status, record.end or record.last)
        self._sent[run] = (len(record.points), len(record.artifacts))

    def _ensure_group(self, key: str, members: list[RunRecord], experiment: str) -> str:
        """Returns the run id of the parent; of several (two machines at once) always the oldest."""
        if key in self._groups:
            return min(self._groups[key], key=lambda run: (run.start, run.id)).id
        start = min(record.start for record in members)
        tags = {KEY: key, GROUP: "true", "preset": members[0].preset[:_TAG_CHARACTERS]}
        run = self._tracker.create_run(experiment, (members[0].group or "")[:_NAME_CHARACTERS], start, tags)
        self._tracker.end_run(run, FINISHED, start)
        return run

    def _end_group(self, key: str, members: list[RunRecord]) -> None:
        """Moves the end of a group to the end of its last run."""
        end = max(record.end or record.last for record in members)
        if end * 1000 >= max((run.end + 1 for run in self._groups.get(key, [])), default=0):
            self._tracker.end_run(self._parents[key], FINISHED, end)

    def _sweep(self, keys: set[str]) -> None:
        """Ends runs marked RUNNING whose process is dead or whose journal is gone."""
        for run in (run for runs in self._groups.values() for run in runs):
            if run.status == RUNNING:
                self._tracker.end_run(run.id, FINISHED, time.time())
        for key, runs in self._runs.items():
            for run in runs:
                if run.status == RUNNING and key not in keys and self._is_left(run):
                    self._tracker.set_tag(run.id, "status", KILLED)
                    self._tracker.end_run(run.id, KILLED, time.time())
                    self._result.ended += 1

    def _is_left(self, run: StoredRun) -> bool:
        """Asks for the status again: the process may have ended the run since we looked."""
        dead = left_by_dead(run.tags.get(ATTEMPT, ""), run.tags.get(SOURCE, ""))
        return dead and self._tracker.status(run.id) == RUNNING

    def _drop_empty_groups(self, records: list[RunRecord]) -> None:
        """Deletes the second parents that machines make who start a group at once, when nothing hangs under them."""
        moved = {record.key for record in records if record.group is not None}
        others = (run for key, runs in self._runs.items() if key not in moved for run in runs)
        used = {*self._parents.values(), *(run.tags.get(PARENT, "") for run in others)}
        for key in self._parents:
            for run in self._groups.get(key, []):
                if run.id not in used:
                    self._tracker.delete_run(run.id)


def _likeness(run: StoredRun, record: RunRecord) -> tuple[bool, bool, int]:
    return run.tags.get(DIGEST) == record.digest, run.tags.get(ATTEMPT) == record.attempt, run.start


def _group_key(record: RunRecord) -> str:
    return run_key(record.experiment, {"preset": record.preset, "group": record.group})


def _text(value: object) -> str:
    return value if isinstance(value, str) else canonical(value)
