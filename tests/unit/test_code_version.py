from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from alignlens.workflow.code_version import code_version, files_of

STEPS = ("data", "subwords", "aligner", "symmetrize", "score", "attribute", "report")


def names(step: str) -> set[str]:
    root = Path(sys.modules["alignlens"].__file__ or "").parent
    return {path.relative_to(root).as_posix() for path in files_of(f"alignlens.cli.{step}")}


def test_a_step_uses_what_it_imports_directly_and_through_others() -> None:
    assert {"cli/score.py", "metrics/aer.py", "alignment/links.py", "io/atomic.py"} <= names("score")
    assert "alignment/symmetrize.py" not in names("score")
    assert "aligners/thot_models.py" in names("aligner"), "imports inside functions count"
    assert "metrics/aer.py" not in names("aligner")
    assert any(name.startswith("report/templates/") for name in names("report"))
    for step in STEPS:
        assert "cli/main.py" not in names(step)


@pytest.mark.parametrize(
    ("changed", "reruns"),
    [
        ("alignment/symmetrize.py", {"symmetrize"}),
        # The report reads scores with the reader of the studies, which knows how intervals are drawn.
        ("metrics/bootstrap.py", {"score", "report"}),
        ("aligners/thot_models.py", {"aligner"}),
        ("corpora/synthetic.py", {"data"}),
        ("io/atomic.py", set(STEPS)),
        ("tracking/store.py", set()),
        ("cli/doctor.py", set()),
        # The report lists all methods; relevance in LSTMs takes the forward pass of their gradients.
        ("attribution/gradients/kernels/products.h", {"attribute", "report"}),
        ("attribution/methods/li_grad.py", {"attribute", "report"}),  # found by looking into its folder
    ],
)
def test_a_change_moves_the_hash_of_exactly_the_steps_that_use_it(
    tmp_path: Path, project: Path, changed: str, reruns: set[str]
) -> None:
    shutil.copytree(project / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    script = "from alignlens.workflow.code_version import code_version\n" + "".join(
        f"print({step!r}, code_version('alignlens.cli.{step}'))\n" for step in STEPS
    )

    def versions() -> dict[str, str]:
        command = [sys.executable, "-c", script]
        output = subprocess.check_output(command, env={"PYTHONPATH": str(tmp_path / "src")}, text=True)
        return dict(line.split() for line in output.splitlines())

    before = versions()
    file = tmp_path / "src" / "alignlens" / changed
    file.write_text(file.read_text() + "\n# changed\n")
    after = versions()
    assert {step for step in STEPS if before[step] != after[step]} == reruns
    assert code_version("alignlens.cli.score") == before["score"]
