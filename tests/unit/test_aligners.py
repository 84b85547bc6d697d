"""The aligners on a toy language whose alignment is known: word k is translated by word k, sentences are reversed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from alignlens.aligners.registry import ALIGNERS, spec_of
from alignlens.aligners.thot_models import StoredAligner, train
from alignlens.alignment.gold import Gold
from alignlens.alignment.links import Alignment
from alignlens.alignment.symmetrize import symmetrize
from alignlens.errors import ConfigError, InputError, ToolError
from alignlens.metrics.aer import count_hits

Text = tuple[list[list[str]], list[list[str]]]


def toy_text(pairs: int, words: int = 60) -> Text:
    """Sentences of 3 to 8 words; the translation has the same words in the same order, but for the first two."""
    source = [[f"s{(7 * k + 11 * n + n * n) % words}" for n in range(3 + k % 6)] for k in range(pairs)]
    target = [[word.replace("s", "t") for word in (line[1], line[0], *line[2:])] for line in source]
    return source, target


def toy_links(source: list[list[str]]) -> Alignment:
    return Alignment.from_pairs([[(1, 0), (0, 1), *((n, n) for n in range(2, len(line)))] for line in source])


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every aligner trained on the toy text; chains start from the stored parent, as in the pipeline."""
    folder = tmp_path_factory.mktemp("aligners")
    source, target = toy_text(400)
    for name, spec in ALIGNERS.items():
        train(name, source, target, folder / name, folder / spec.parent if spec.parent else None)
    return {name: folder / name for name in ALIGNERS}


@pytest.mark.parametrize("name", ALIGNERS)
def test_finds_the_known_links_of_new_text(stored: dict[str, Path], name: str) -> None:
    source, target = toy_text(450)
    source, target = source[400:], target[400:]
    links = StoredAligner.load(stored[name]).align(source, target)
    known = toy_links(source)
    aer = count_hits(links, Gold(known, known)).scores().aer
    assert aer < (20 if name == "ibm1" else 12), f"{name}: {aer:.1f}"
    assert len(links) == len(source)


@pytest.mark.parametrize("name", ALIGNERS)
def test_a_stored_model_gives_the_same_links_whatever_stands_beside(stored: dict[str, Path], name: str) -> None:
    source, target = toy_text(430)
    source, target = [*source[400:], [], ["s1"]], [*target[400:], ["t1"], []]
    whole = StoredAligner.load(stored[name]).align(source, target)
    again = StoredAligner.load(stored[name]).align(source[::-1], target[::-1])
    assert list(whole) == list(again)[::-1]
    assert [StoredAligner.load(stored[name]).align(source[:1], target[:1])[0]] == [whole[0]]
    assert whole[30] == whole[31] == []


def test_training_again_in_one_process_stores_the_same_model(stored: dict[str, Path], tmp_path: Path) -> None:
    source, target = toy_text(400)
    for name in ("fast_align", "ibm4", "eflomal"):
        train(name, source, target, tmp_path / name)
        for path in sorted(stored[name].iterdir()):
            assert (tmp_path / name / path.name).read_bytes() == path.read_bytes(), path


def test_one_thread_whatever_the_environment_says(tmp_path: Path) -> None:
    code = (
        "import os, pathlib; from alignlens.aligners.thot_models import train\n"
        "text = [[f'w{k % 7}', f'w{k % 5}'] for k in range(300)]\n"
        f"train('fast_align', text, text, pathlib.Path({str(tmp_path)!r}) / 'model')\n"
        "assert os.environ['OMP_NUM_THREADS'] == '4'\n"
        "print(len(os.listdir('/proc/self/task')))\n"
    )
    if not Path("/proc/self/task").exists():
        pytest.skip("needs /proc to count threads")
    counts = []
    for threads in ("4", "1"):
        environment = {**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": "1"}
        script = code.replace("'4'", f"'{threads}'")
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        counts.append(int(done.stdout))
    assert counts[0] == counts[1]


def test_agrees_with_the_original_fast_align(tmp_path: Path) -> None:
    """The original program gives symmetrised links only; ours, symmetrised alike, must be nearly the same."""
    systran_align = pytest.importorskip("systran_align", reason="the original fast_align is packaged for Python 3.11")
    source, target = toy_text(600, words=40)
    joint = tmp_path / "joint"
    joint.write_text("".join(f"{' '.join(s)} ||| {' '.join(t)}\n" for s, t in zip(source, target, strict=True)))
    options = {"favor_diagonal": True, "optimize_tension": True, "variational_bayes": True}
    systran_align.generate_alignment_probabilities(str(joint), str(tmp_path / "f"), str(tmp_path / "b"), **options)
    original = systran_align.Aligner(str(tmp_path / "f"), str(tmp_path / "b"))
    theirs = Alignment.from_pairs(
        [[tuple(link) for link in original.align(s, t)["alignments"]] for s, t in zip(source, target, strict=True)]
    )
    train("fast_align", source, target, tmp_path / "forward")
    train("fast_align", target, source, tmp_path / "reverse")
    forward = StoredAligner.load(tmp_path / "forward").align(source, target)
    reverse = StoredAligner.load(tmp_path / "reverse").align(target, source).transposed()
    ours = symmetrize(forward, reverse, "grow-diag-final-and")
    assert count_hits(ours, Gold(theirs, theirs)).scores().f1 > 98


def test_pairs_that_cannot_be_used_are_counted(tmp_path: Path) -> None:
    source, target = toy_text(50)
    record = train("fast_align", [*source, [], ["s1"] * 2000], [*target, ["t1"], ["t1"]], tmp_path / "model")
    assert (record.pairs, record.skipped_empty, record.skipped_too_long) == (50, 1, 1)


def test_every_iteration_can_be_watched(tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []
    train("hmm", *toy_text(30), tmp_path / "hmm", watch=lambda stage, number, seconds: seen.append((stage, number)))
    assert seen == [(stage, number) for stage in ("ibm1", "hmm") for number in range(1, 6)]


def test_bad_input_is_told(stored: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"text\.de:2: 300 words, but hmm takes at most 200"):
        StoredAligner.load(stored["hmm"]).align([["s1"], ["s1"] * 300], [["t1"], ["t1"]], "text.de")
    with pytest.raises(ToolError, match="no sentence pair"):
        train("ibm1", [[]], [[]], tmp_path / "model")
    with pytest.raises(InputError, match="holds ibm1, not hmm"):
        StoredAligner.load(stored["ibm1"], wanted="hmm")
    with pytest.raises(InputError, match="not a stored aligner"):
        StoredAligner.load(tmp_path)
    with pytest.raises(ConfigError, match="did you mean eflomal"):
        spec_of("eflomall")
