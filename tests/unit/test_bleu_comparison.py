"""Systems against a baseline by BLEU: sacreBLEU's own tests as oracle, cases that can be told, and seeds."""

from __future__ import annotations

from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from alignlens.metrics.bleu import bleu_interval, corpus_bleu
from alignlens.metrics.bleu_comparison import compare_bleu, randomisation_p
from alignlens.metrics.sampled import Draws

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.metrics.bleu_comparison import Comparison, Difference, Translation

GENERATOR = np.random.default_rng(3)
REFERENCES = [" ".join(GENERATOR.choice(list("abcdefgh"), size=GENERATOR.integers(2, 15))) for _ in range(211)]
DRAWS = Draws(samples=200, seed=7)


def translation(wrong: float, seed: int) -> list[str]:
    """The reference with a share of its words replaced."""
    generator = np.random.default_rng(seed)
    return [" ".join("x" if generator.random() < wrong else word for word in line.split()) for line in REFERENCES]


BASE, LIKE_IT, BETTER = translation(0.3, 1), translation(0.31, 2), translation(0.1, 3)


def compared(**systems: Sequence[Translation]) -> Comparison:
    return compare_bleu({"base": [BASE], **systems}, REFERENCES, DRAWS, "base", "none", trials=500)


def difference(found: Comparison, name: str) -> Difference:
    (versus,) = (system.overall.versus for system in found.systems if system.name == name)
    assert versus is not None
    return versus


@pytest.mark.parametrize("seed", ["1", "7", "12345"])
def test_scores_p_values_and_signatures_are_those_of_sacrebleu(seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.significance import PairedTest

    monkeypatch.setenv("SACREBLEU_SEED", seed)
    systems = {"base": [BASE], "like": [LIKE_IT], "better": [BETTER]}
    found = compare_bleu(systems, REFERENCES, Draws(samples=200, seed=int(seed)), "base", "none", trials=300)
    parts = set()
    for kind, draws, ours in (("bs", 200, "p_bootstrap"), ("ar", 300, "p_randomisation")):
        named: list[tuple[str, Sequence[str]]] = [(name, seeds[0]) for name, seeds in systems.items()]
        test = PairedTest(named, {"BLEU": BLEU(tokenize="none", force=True)}, [REFERENCES], kind, draws)
        signatures, table = test()
        results: list[Any] = table["BLEU"]
        assert [system.overall.bleu for system in found.systems] == pytest.approx([each.score for each in results])
        for name, result in zip(("like", "better"), results[1:], strict=True):
            assert getattr(difference(found, name), ours) == pytest.approx(result.p_value, abs=1e-12)
        parts |= set(str(signatures["BLEU"]).split("|"))
    assert set(found.signature.split("|")) == parts


def test_scores_and_intervals_are_those_of_each_translation_alone() -> None:
    found = compared(better=[BETTER])
    for system, text in zip(found.systems, (BASE, BETTER), strict=True):
        assert system.overall.bleu == pytest.approx(corpus_bleu(text, REFERENCES, "none").bleu)
        alone = bleu_interval(text, REFERENCES, "none", DRAWS.level, DRAWS.samples, DRAWS.seed)
        assert (system.overall.low, system.overall.high) == pytest.approx((alone.low, alone.high))
    assert found.systems[0].overall.versus is None
    assert found.sentences == len(REFERENCES)


def test_a_system_does_not_differ_from_itself() -> None:
    assert astuple(difference(compared(same=[BASE]), "same")) == (0, 0, 0, 1, 1, 1)
    several = compare_bleu(
        {"base": [BASE, LIKE_IT], "same": [BASE, LIKE_IT]}, REFERENCES, DRAWS, "base", "none", trials=500
    )
    overall = difference(several, "same")
    assert (overall.difference, overall.p_value) == (0, 1)


def test_one_sentence_that_differs_is_no_evidence() -> None:
    # sacreBLEU says p = 1 / 501: an exchange never makes the difference greater.
    found = difference(compared(almost=[[REFERENCES[0], *BASE[1:]]]), "almost")
    assert found.difference > 0
    assert found.p_randomisation == 1
    assert found.p_value is not None
    assert found.p_value > 0.5


def test_a_much_better_system_is_better_and_one_like_the_baseline_is_not() -> None:
    found = compared(better=[BETTER], like=[LIKE_IT])
    better, like = difference(found, "better"), difference(found, "like")
    assert better.low is not None
    assert better.low > 10
    assert better.p_value == pytest.approx(2 / 201)
    assert better.p_bootstrap == pytest.approx(1 / 201)
    assert better.p_randomisation == pytest.approx(1 / 501)
    assert like.low is not None
    assert like.high is not None
    assert like.low < 0 < like.high
    assert min(like.p_value or 0, like.p_bootstrap or 0, like.p_randomisation or 0) > 0.05


def test_the_same_seed_gives_the_same_numbers_and_another_gives_others() -> None:
    assert compared(like=[LIKE_IT]) == compared(like=[LIKE_IT])
    other = compare_bleu(
        {"base": [BASE], "like": [LIKE_IT]}, REFERENCES, Draws(samples=200, seed=8), "base", "none", trials=500
    )
    assert difference(other, "like").low != difference(compared(like=[LIKE_IT]), "like").low


def test_a_system_has_the_same_numbers_whoever_else_is_compared() -> None:
    alone, among = compared(like=[LIKE_IT]), compared(better=[BETTER], like=[LIKE_IT])
    assert difference(alone, "like") == difference(among, "like")


def test_seeds_count_by_their_mean_and_each_against_its_partner() -> None:
    seeds = [translation(0.3, seed) for seed in (11, 12, 13)]
    others = [translation(0.2, seed) for seed in (21, 22, 23)]
    found = compare_bleu({"base": seeds, "new": others}, REFERENCES, DRAWS, "base", "none", trials=500)
    base, new = found.systems
    assert new.overall.bleu == pytest.approx(np.mean([corpus_bleu(text, REFERENCES, "none").bleu for text in others]))
    overall = difference(found, "new")
    assert overall.difference == pytest.approx(new.overall.bleu - base.overall.bleu)
    assert (overall.p_bootstrap, overall.p_randomisation) == (None, None)
    assert overall.p_value == pytest.approx(2 / 201)
    for place, seed in enumerate(new.seeds):
        pair = {"base": [seeds[place]], "new": [others[place]]}
        alone = compare_bleu(pair, REFERENCES, DRAWS, "base", "none", trials=500)
        assert seed == alone.systems[1].overall


def test_seeds_that_differ_widen_the_interval() -> None:
    alike = compared(new=[BASE, BASE])
    unlike = compared(new=[translation(0.2, 31), translation(0.4, 32)])
    widths = [(found.high or 0) - (found.low or 0) for found in (difference(each, "new") for each in (alike, unlike))]
    assert widths[0] == 0
    assert widths[1] > 10


def test_other_numbers_of_seeds_are_compared_by_means_and_with_an_only_one() -> None:
    two, three = [BASE, LIKE_IT], [BETTER, BASE, LIKE_IT]
    found = compare_bleu({"base": two, "new": three}, REFERENCES, DRAWS, "base", "none", trials=500)
    assert [seed.versus for seed in found.systems[1].seeds] == [None] * 3
    assert difference(found, "new").low is not None
    found = compared(new=three)
    first, second, _ = (seed.versus for seed in found.systems[1].seeds)
    assert first is not None
    assert first.difference > 10
    assert second is not None
    assert second.p_randomisation == 1


def test_one_sentence_tells_nothing_about_noise() -> None:
    found = compare_bleu({"a": [["a b c d x"]], "b": [["a b c d e"]]}, ["a b c d e"], DRAWS, "a", "none")
    versus = difference(found, "b")
    assert versus.difference > 0
    assert astuple(versus)[1:] == (None,) * 5
    assert (found.systems[0].overall.low, found.systems[0].overall.high) == (None, None)


def test_without_a_baseline_nothing_is_compared() -> None:
    found = compare_bleu({"a": [BASE], "b": [BETTER]}, REFERENCES, DRAWS, tokenize="none")
    assert [system.overall.versus for system in found.systems] == [None, None]
    assert "|ar:" not in found.signature


def test_a_system_needs_translations_of_all_sentences() -> None:
    with pytest.raises(ValueError, match="2 hypotheses for 211 references"):
        compared(short=[["a", "b"]])
    with pytest.raises(ValueError, match="without translations"):
        compared(empty=[])
    with pytest.raises(ValueError, match="without translations"):
        compare_bleu({"a": [BASE]}, REFERENCES, DRAWS, "b")
    assert randomisation_p([], 10, 1) == []
