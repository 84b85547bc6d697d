"""The tiny workflow through the Slurm profile, tracked on a server, against the same workflow on this machine alone."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from slurm import Slurm
from submitted import CANCELLED, HUNGRY, SHORT_OF_MEMORY, SMALL, Submission, living_children_of
from throwaway import Workspace, make_workspace
from tracking_server import OwnServer, own_server

from alignlens.errors import ToolError
from alignlens.serving.database import find_programs

pytestmark = pytest.mark.cluster
#: Job numbers may be used by nobody else in the meantime; a state is that of the end.
Job = tuple[str, str, str]


@dataclass(frozen=True)
class Finished:
    """What a run on the cluster left behind."""

    workspace: Workspace
    before_kill: list[Job]
    jobs: list[Job]
    cancelled: str
    log: str
    uri: str

    def submissions(self) -> Counter[str]:
        return Counter(comment for _, _, comment in self.jobs)


@pytest.fixture(scope="module")
def server() -> Iterator[OwnServer]:
    """An MLflow server with PostgreSQL, which jobs on nodes and the sync at the end write to."""
    try:
        find_programs()
    except ToolError as error:
        pytest.skip(str(error))
    with own_server() as made:
        yield made


@pytest.fixture(scope="module")
def finished(
    slurm: Slurm, server: OwnServer, tmp_path_factory: pytest.TempPathFactory, project: Path
) -> Iterator[Finished]:
    """The same through Slurm: Snakemake killed and started again, a job cancelled, a job over its memory limit."""
    workspace = make_workspace(tmp_path_factory.mktemp("cluster") / "project", project, SMALL)
    submission = Submission(workspace, slurm, {"MLFLOW_TRACKING_URI": server.uri})
    before = submission.kill_when(submission.start(*SHORT_OF_MEMORY), CANCELLED)
    again = submission.start(*SHORT_OF_MEMORY)
    cancelled = submission.cancel(CANCELLED, again, before)
    submission.wait(again)
    yield Finished(workspace, before, slurm.jobs(), cancelled, submission.log.read_text(), server.uri)
    assert not living_children_of(workspace.folder)


def test_the_tables_are_those_of_a_local_run(finished: Finished, local: Workspace) -> None:
    expected = local.stable_files()
    assert len(expected) > 50
    assert finished.workspace.stable_files() == expected


def test_finished_work_is_not_submitted_again_and_running_jobs_are_cancelled(finished: Finished) -> None:
    done = [comment for _, state, comment in finished.before_kill if state == "COMPLETED"]
    assert len(done) >= 2, "at least the text and its pieces"
    assert {finished.submissions()[comment] for comment in done} == {1}
    ran = {number for number, state, _ in finished.before_kill if state == "RUNNING"}
    ended = {number: state for number, state, _ in finished.jobs if number in ran}
    assert set(ended.values()) <= {"CANCELLED", "COMPLETED"}
    assert "CANCELLED" in ended.values()
    assert "of a Snakemake that was killed: " in finished.log


def test_a_cancelled_job_and_one_over_its_memory_are_tried_again(finished: Finished) -> None:
    states = [state for number, state, comment in finished.jobs if comment == CANCELLED]
    assert "CANCELLED" in [state for number, state, _ in finished.jobs if number == finished.cancelled]
    assert states[-1] == "COMPLETED"
    hungry = [state for _, state, comment in finished.jobs if comment.startswith(f"rule_{HUNGRY}_")]
    assert len(hungry) == 2
    assert hungry[0] in ("OUT_OF_MEMORY", "FAILED", "CANCELLED")
    assert hungry[1] == "COMPLETED"


def test_jobs_say_what_they_are_and_short_ones_go_together(finished: Finished) -> None:
    comments = set(finished.submissions())
    assert "rule_train_wildcards_tiny_xb-xa_transformer_1" in comments
    assert "rule_attribute_wildcards_tiny_transformer_1_final_test_forced_xa-xb" in comments
    assert any(comment.startswith("rule_translation_tiny_xa-xb_transformer_1_") for comment in comments)
    assert any(comment.startswith("rule_links_tiny_transformer_1_") for comment in comments)
    groups = yaml.safe_load((finished.workspace.folder / "profiles/slurm/config.yaml").read_text())["groups"]
    alone = tuple(f"rule_{rule}_wildcards" for rule in groups)
    assert not [comment for comment in comments if comment.startswith(alone)]
    group_names = tuple({f"rule_{name.partition('{')[0]}" for name in groups.values()})
    jobs = sum(count for comment, count in finished.submissions().items() if comment.startswith(group_names))
    steps = sum(len(list(finished.workspace.results.glob(f"benchmarks/{rule}/**/*.tsv"))) for rule in groups)
    assert jobs < 0.7 * steps, f"{steps} short steps went into {jobs} jobs"


def test_every_job_is_one_ended_run_on_the_server(finished: Finished, local: Workspace) -> None:
    runs = finished.workspace.mlflow_runs(finished.uri)
    keys = [str(run["key"]) for run in runs]
    assert len(keys) == len(set(keys))
    assert {run["status"] for run in runs} == {"FINISHED"}
    assert sorted(keys) == sorted(str(run["key"]) for run in local.mlflow_runs())


def test_a_cluster_with_accounting_can_be_asked_by_sacct(slurm: Slurm, tmp_path: Path, project: Path) -> None:
    workspace = make_workspace(tmp_path / "project", project)
    submission = Submission(workspace, slurm)
    wanted = "results/tiny/subwords/tiny"
    submission.wait(submission.start("--slurm-status-command", "sacct", "--", wanted))
    assert (workspace.folder / wanted / "source.model").is_file()
    until = time.monotonic() + 60
    while time.monotonic() < until:  # what has ended is written to the database a little later
        listed = slurm.run(
            "sacct", "--allusers", "--noheader", "--parsable2", "--allocations", "--format=Comment,State"
        )
        if any(
            line.startswith("rule_subwords_tiny") and line.endswith("COMPLETED") for line in listed.stdout.splitlines()
        ):
            return
        time.sleep(0.5)
    pytest.fail(listed.stdout)
