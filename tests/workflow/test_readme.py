"""The commands of the documentation work as printed, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from printed_commands import BIN, Change, blocks, changed, run
from throwaway import Workspace

pytestmark = pytest.mark.workflow
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
    Change(r"^snakemake (--workflow-profile)", r"snakemake --configfile tiny.yaml --dry-run \1", "no cluster here"),
    Change(r"^alignlens ui", "alignlens ui --help", "serves until somebody stops it; tests/cluster/test_ui.py"),
]


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
    assert "| fast_align, offline " in printed
    assert f"Report: {finished.results.relative_to(finished.folder)}" in printed
    assert len((tmp_path / "text.links").read_text().splitlines()) == len(marian_folder.spoken(1, 20))


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
