"""The commands of the documentation work as printed, and its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from throwaway import BRIEFLY, TINY, Workspace, environment, make_workspace

pytestmark = pytest.mark.workflow
BIN = Path(sys.executable).parent
#: The demo's language, but a few hundred sentences of it, and as little work as the settings allow.
LITTLE = {
    **{key: TINY[key] for key in ("datasets", "custom_datasets", "subwords", "interval")},
    "models": {"transformer": {"preset": "demo_transformer", "training": BRIEFLY}},
    "attribution": {**TINY["attribution"], "methods": [], "samples": 2, "cost_sentences": 2},
}


class Change(NamedTuple):
    """What a test does instead of a part of a command."""

    of: str
    to: str
    why: str


COMMANDS = [
    Change(r"\bdemo\b", "tiny", "the tiny corpus stands in for the demo"),
    Change(r"/tmp/", "{scratch}/", "tests share no folder"),
]
README = [
    Change(r"make demo", "make -f {project}/Makefile -o install demo BIN={bin} CONFIG=tiny.yaml", "it is installed"),
    Change(r"^make install && source .*", "true", "the tests run in what make install made"),
    Change(r"^source \.venv.*", "true", "likewise"),
    Change(r"^(snakemake --cores all)( ding2019)?(?= +#)", r"\1\2 --configfile tiny.yaml", "the tiny corpus"),
    Change(r"\b(opus-mt-\w\w-\w\w|(?:some|text|recipe)\.\w+)", r"{scratch}/\1", "text and models are the reader's"),
    Change(r"^(snakemake .*/hansards.yaml)", r"\1 --dry-run", "real text, and an hour"),
    Change(r"^(snakemake --workflow-profile .*)$", r"\1 --dry-run", "no cluster; tests/cluster has one"),
    Change(r"^alignlens ui", "alignlens ui --help", "serves until somebody stops it; tests/cluster/test_ui.py"),
]
TUTORIAL = [
    Change(r"^make install$", "true", "the tests run in what make install made"),
    Change(r"^source \.venv.*", "true", "likewise"),
    Change(r"(--configfile mine\.yaml)", r"\1 little.yaml", "a tiny corpus and a short training"),
    Change(r"(shallow: \{)", r"\1training: {{max_updates: 30, validate_every: 15}}, ", "likewise"),
    Change(r"(models|data)/demo\b", r"\1/tiny", "likewise"),
]


def blocks(page: Path) -> list[str]:
    """Returns the blocks of commands of a page; others are plain text, YAML or Python, and say so."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    assert {kind for kind, _ in found} <= {"bash", "yaml", "python", "text"}, f"{page.name}: a block of no kind"
    return [text for kind, text in found if kind == "bash"]


def changed(block: str, changes: list[Change], used: set[Change], **names: Path) -> str:
    """Returns the commands that a test runs for those of a block."""
    for change in changes:
        new, count = re.subn(change.of, change.to.format(**names), block, flags=re.MULTILINE)
        if count:
            used.add(change)
            block = new
    return block


def run(block: str, folder: Path, **variables: str) -> str:
    """Runs commands as a shell does, and returns what they print."""
    path = f"{BIN}:{environment()['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=folder,
        env={**environment(), "PATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_commands_for_the_parts_alone(finished: Workspace, project: Path, tmp_path: Path) -> None:
    (block,) = blocks(project / "docs" / "commands.md")
    assert len(block.splitlines()) >= 6
    assert all(line.startswith("alignlens ") for line in block.splitlines())
    used: set[Change] = set()
    run(changed(block, COMMANDS, used, scratch=tmp_path), finished.folder)
    assert used == set(COMMANDS)


def test_every_command_of_the_readme(finished: Workspace, project: Path, tmp_path: Path) -> None:
    marian_folder = pytest.importorskip("marian_folder", reason="the Hugging Face library is not installed")
    for seed, direction in enumerate(("en-fr", "fr-en")):
        marian_folder.write_folder(tmp_path / f"opus-mt-{direction}", seed=seed, max_position_embeddings=512)
    for name in ("some.en", "some.fr", "text.en", "text.fr"):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in marian_folder.spoken(1, 20)))
    (tmp_path / "text.gold").write_text("0-0\n" * len(marian_folder.spoken(1, 20)))
    used: set[Change] = set()
    printed = ""
    for block in blocks(project / "README.md"):
        commands = changed(block, README, used, scratch=tmp_path, project=project, bin=BIN)
        printed += run(commands, finished.folder)
    assert used == set(README), "a change that changes nothing"
    assert "| fast_align, offline |" in printed
    assert f"Report: {finished.results.relative_to(finished.folder)}" in printed
    assert len((tmp_path / "text.links").read_text().splitlines()) == len(marian_folder.spoken(1, 20))


def test_every_command_of_the_tutorial(project: Path, tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path / "project", project)
    (workspace.folder / "little.yaml").write_text(yaml.safe_dump(LITTLE))
    used: set[Change] = set()
    printed = []
    for block in blocks(project / "docs" / "tutorial.md"):
        commands = changed(block, TUTORIAL, used, scratch=tmp_path)
        printed.append(run(commands, workspace.folder, PYTHONPATH=str(workspace.folder / "src")))
    assert used == set(TUTORIAL), "a change that changes nothing"
    rerun, rows = printed[-2], printed[-1]
    assert "squared_attention" in rerun.splitlines()[-1]
    assert "attribute" in rerun
    assert not re.search(r"^train\b", rerun, re.MULTILINE)
    models = [line.split("|")[1].strip() for line in rows.splitlines() if "squared_attention" in line]
    assert sorted(models) == ["shallow", "transformer"]


def test_every_link_of_the_documentation_leads_somewhere(project: Path) -> None:
    names = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "config/README.md", "results/README.md")
    pages = [project / name for name in names]
    for page in [*pages, *(project / "docs").glob("*.md"), project / "benchmarks/README.md"]:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} points to {target}"


def test_the_readme_stays_short(project: Path) -> None:
    assert len((project / "README.md").read_text().splitlines()) <= 150


def test_no_placeholder_is_left(project: Path) -> None:
    for page in [project / "README.md", *(project / "docs").glob("*.md")]:
        assert not re.search(r"@[A-Z]+@", page.read_text()), page.name
