"""Toy tasks: batched seeds compute what plain models compute, samples are what the tasks say, measures by hand."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from alignlens.corpora.symbols import BEGIN_ID, END_ID
from alignlens.errors import ConfigError
from alignlens.io.typed import schema_of
from alignlens.models.lstm import Lstm
from alignlens.toys import keyword
from alignlens.toys.copying import Copiers, CopyLesson, initial_weights, model_settings
from alignlens.toys.heads import SCENARIOS, Collected, Heads, draws
from alignlens.toys.keyword import Classifiers, KeywordLesson, Texts
from alignlens.toys.samples import FIRST_WORD, KEYWORD, CopyTask, draw_questions
from alignlens.toys.settings import TASKS, HeadsSettings, KeywordSettings, toy_settings

SMALL = {"words": 7, "dim": 12, "hidden": 16, "batch": 8}
SEEDS = [3, 4, 9]
KINDS = [("printed", 1), ("printed", 3), ("released", 1), ("released", 3)]


def settings_of(task: str, **changes: Any) -> Any:
    return toy_settings(task, {**SMALL, **changes}, "settings")


def lesson_of(variant: Any = "printed", heads: int = 1, task: str = "permutation") -> CopyLesson:
    settings = settings_of(task)
    return CopyLesson(CopyTask(task, settings), model_settings(settings, variant, heads))


def start(lesson: CopyLesson, seeds: list[int]) -> list[dict[str, Tensor]]:
    return [initial_weights(lesson.settings, lesson.task.settings.vocabulary, seed) for seed in seeds]


def step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def far(one: Tensor, other: Tensor) -> float:
    return float((one - other).detach().norm() / other.detach().norm())


# ---- the batched models


@pytest.mark.parametrize(("variant", "heads"), KINDS)
def test_batched_seeds_train_as_plain_models_with_torchs_adam(variant: str, heads: int) -> None:
    lesson = lesson_of(variant, heads)
    models = lesson.build(start(lesson, SEEDS))
    optimizer = torch.optim.Adam(models.weights.values(), lr=1e-3, fused=True)
    words = FIRST_WORD + lesson.task.settings.vocabulary
    plain = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        plain.append(Lstm(lesson.settings, words, words))
    others = [torch.optim.Adam(model.parameters(), lr=1e-3) for model in plain]
    for number in range(20):
        batch = lesson.batch(SEEDS, number, evaluation=False)
        losses = models.losses(batch)
        step(optimizer, losses.sum())
        for place, (model, other) in enumerate(zip(plain, others, strict=True)):
            source, prefix, labels = (ids[place].t() for ids in (batch.source, batch.prefix, batch.labels))
            logits = model(source, torch.ones_like(source, dtype=torch.bool), prefix)
            loss = functional.cross_entropy(logits.flatten(0, 1), labels.reshape(-1))
            step(other, loss)
            assert losses[place].item() == pytest.approx(loss.item(), rel=1e-5)
            if number in (0, 19):
                for name, parameter in model.named_parameters():
                    assert number or far(models.weights[name].grad[place], parameter.grad) < 1e-5, name
                    assert far(models.weights[name][place], parameter) < 1e-5, (number, name)
    accuracies = models.accuracies(batch)
    expected = (plain[0](batch.source[0].t(), (batch.source[0] > 0).t(), batch.prefix[0].t()).argmax(-1)).t()
    assert accuracies[0].item() == pytest.approx((expected == batch.labels[0]).double().mean().item())


@pytest.mark.parametrize(("variant", "heads"), KINDS)
def test_one_step_is_the_plain_models_to_rounding(variant: str, heads: int) -> None:
    lesson = lesson_of(variant, heads)
    weights = start(lesson, SEEDS)
    doubles = [{name: weight.double() for name, weight in each.items()} for each in weights]
    models = lesson.build(weights)
    batch = lesson.batch(SEEDS, 0, evaluation=False)
    models.losses(batch).sum().backward()
    words = FIRST_WORD + lesson.task.settings.vocabulary
    for place, exact in enumerate(doubles):
        model = Lstm(lesson.settings, words, words).double()
        for name, parameter in model.named_parameters():
            parameter.data.copy_(exact[name])
        source, prefix, labels = (ids[place].t() for ids in (batch.source, batch.prefix, batch.labels))
        logits = model(source, torch.ones_like(source, dtype=torch.bool), prefix)
        functional.cross_entropy(logits.flatten(0, 1), labels.reshape(-1)).backward()
        for name, parameter in model.named_parameters():
            assert far(models.weights[name].grad[place].double(), parameter.grad) < 1e-5, name


@pytest.mark.parametrize(("variant", "heads"), KINDS)
def test_a_seed_does_not_depend_on_who_trains_beside_it(variant: str, heads: int) -> None:
    lesson = lesson_of(variant, heads)

    def trained(seeds: list[int]) -> Copiers:
        models = lesson.build(start(lesson, seeds))
        optimizer = torch.optim.Adam(models.weights.values(), lr=1e-3, fused=True)
        for number in range(10):
            step(optimizer, models.losses(lesson.batch(seeds, number, evaluation=False)).sum())
        return models

    together = trained(SEEDS)
    for place, seed in enumerate(SEEDS):
        alone = trained([seed])
        for name, weight in alone.weights.items():
            torch.testing.assert_close(together.weights[name][place], weight[0], rtol=1e-6, atol=1e-6, msg=name)


@pytest.mark.parametrize("directions", [1, 2])
def test_batched_classifiers_are_plain_ones(directions: int) -> None:
    settings = settings_of("keyword", near_end=2)
    weights = [keyword.initial_weights(settings, directions, seed) for seed in SEEDS]
    models, batch = Classifiers(weights), KeywordLesson(settings).batch(SEEDS, 0, evaluation=False)
    losses = models.losses(batch)
    losses.sum().backward()
    for place, own in enumerate(weights):
        table = own["table.weight"].clone().requires_grad_()
        layer = nn.LSTM(settings.dim, settings.hidden, bidirectional=directions == 2)
        score = nn.Linear(directions * settings.hidden, 1)
        layer.load_state_dict({name[8:]: each for name, each in own.items() if name.startswith("encoder.")})
        score.load_state_dict({name[6:]: each for name, each in own.items() if name.startswith("score.")})
        evidence = score(layer(table[batch.words[place]])[0])[..., 0]
        torch.testing.assert_close(models.evidence(batch.words)[place], evidence)
        loss = functional.binary_cross_entropy_with_logits(evidence.mean(0), batch.positive[place])
        loss.backward()
        assert losses[place].item() == pytest.approx(loss.item(), rel=1e-5)
        found = {"table.weight": table.grad}
        found.update({f"encoder.{name}": each.grad for name, each in layer.named_parameters()})
        found.update({f"score.{name}": each.grad for name, each in score.named_parameters()})
        assert found.keys() == models.weights.keys()
        for name, gradient in found.items():
            assert far(models.weights[name].grad[place], gradient) < 1e-5, name


def test_a_seed_starts_from_the_plain_models_weights_and_leaves_the_generator_alone() -> None:
    lesson = lesson_of()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    drawn = initial_weights(lesson.settings, 7, 3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(3)
    model = Lstm(lesson.settings, FIRST_WORD + 7, FIRST_WORD + 7)
    assert all(torch.equal(drawn[name], each) for name, each in model.named_parameters())


# ---- samples


@pytest.mark.parametrize("task", ["permutation", "control", "mixture", "permuted_copy"])
def test_sentences_are_distinct_words_of_the_right_set(task: str) -> None:
    settings = settings_of(task, batch=300, **({"pool": 11} if "copy" in task or task == "control" else {}))
    pairs = CopyTask(task, settings).draw(2, 5)
    words = pairs.source[:, :-1] - FIRST_WORD
    assert (pairs.source[:, -1] == END_ID).all()
    assert (pairs.prefix[:, 0] == BEGIN_ID).all()
    assert (pairs.prefix[:, 1:] == pairs.target[:, :-1]).all()
    assert all(len(set(row)) == 7 for row in words.tolist())
    assert set(words.ravel().tolist()) == set(range(settings.vocabulary))
    order = CopyTask(task, settings).order(2)
    assert (pairs.target == pairs.source[:, order]).all()
    assert (order.tolist() == list(range(7))) == (task != "permuted_copy")
    sets = {frozenset(row) for row in words.tolist()}
    wanted = {"permutation": 1, "mixture": 2}.get(task)
    assert len(sets) == wanted if wanted else len(sets) > 50
    if task == "mixture":
        assert sets == {frozenset(range(7)), frozenset(range(7, 14))}
        assert 100 < sum(row[0] < 7 for row in words.tolist()) < 200


def test_samples_are_fresh_at_every_step_and_fixed_by_seed_and_step() -> None:
    task = CopyTask("permuted_copy", settings_of("permuted_copy"))
    drawn = {
        (seed, number, evaluation): task.draw(seed, number, evaluation).source.tobytes()
        for seed in (1, 2)
        for number in (0, 1, 2)
        for evaluation in (False, True)
    }
    assert len(set(drawn.values())) == len(drawn)
    assert task.draw(2, 1).source.tobytes() == drawn[2, 1, False]
    orders = {tuple(task.order(seed)) for seed in range(1, 9)}
    assert len(orders) == 8


def test_the_keyword_occurs_once_or_not_at_all() -> None:
    settings = settings_of("keyword", batch=400, near_end=2)
    for evaluation in (False, True):
        drawn = draw_questions(settings, 1, 3, evaluation)
        times = (drawn.words == KEYWORD).sum(1)
        assert (times == drawn.positive).all()
        assert drawn.positive.mean() == 0.5
        assert (drawn.words[drawn.positive, drawn.places[drawn.positive]] == KEYWORD).all()
        assert set(drawn.places[drawn.positive]) == set(range(7))
        assert set(drawn.words.ravel().tolist()) == set(range(7))


def test_counts_of_permutations_are_flat_and_of_a_larger_pool_are_not() -> None:
    flat = CopyTask("permutation", settings_of("permutation", count_samples=50)).counts()
    assert flat.shape == (7, 7)
    np.testing.assert_allclose(flat, 1 / 8)  # one of eight positions, END counts
    mixed = CopyTask("mixture", settings_of("mixture", count_samples=50)).counts()
    assert (mixed[:7, 7:] == 0).all()
    assert (mixed[7:, :7] == 0).all()
    np.testing.assert_allclose(mixed[0, 0] + mixed[7, 7], 1 / 8)
    control = CopyTask("control", settings_of("control", pool=14, count_samples=4000)).counts()
    np.testing.assert_allclose(np.diag(control), 7 / 14 / 8, rtol=0.1)
    np.testing.assert_allclose(control[0, 1:], 7 / 14 * 6 / 13 / 8, rtol=0.1)


# ---- measures of evidence


def test_evidence_is_read_where_the_keyword_is_and_dropped_at_the_end() -> None:
    lesson = KeywordLesson(settings_of("keyword", words=4, near_end=2, evaluate_samples=8))
    evidence = torch.tensor([[9.0, 1.0, 0.0, 5.0], [0.0, 0.0, 7.0, 3.0], [1.0, 1.0, 1.0, 8.0], [-1.0, -2.0, -3.0, 1.0]])

    class Fixed:
        def evidence(self, words: Tensor) -> Tensor:
            return evidence.t()[None]

    batch = Texts(torch.zeros(1, 4, 4, dtype=torch.long), torch.tensor([[1.0, 1, 1, 0]]), torch.tensor([[0, 2, 3, 0]]))
    found = {name: value.item() for name, value in lesson.measured(Fixed(), batch).items()}  # type: ignore[arg-type]
    assert found["keyword"] == (9 + 7 + 8) / 3
    assert found["next"] == (1 + 3) / 2  # the third text ends with the keyword
    assert found["mean"] == pytest.approx((15 / 4 + 10 / 4 + 11 / 4) / 3)
    assert found["last"] == 5  # in the others the keyword is one of the last two words
    assert found["accuracy"] == 1


# ---- heads


HEADS = {"heads": 3, "collect": 4, "random_pool": 5, "draws": 6, "data_seeds": 2, "most_heads": 20}


def collected(settings: HeadsSettings, kinds: str) -> Collected:
    found = Collected(settings)
    curves = {"g": [[0.1, 0.97], [0.96, 0.94]], "b": [[0.7, 0.5], [0.1, 0.2]], "r": [[0.1, 0.97], [0.1, 0.5]]}
    for kind in kinds:
        found.add(curves[kind])
    return found


def test_heads_are_good_bad_or_rejected_by_all_their_trainings() -> None:
    settings = settings_of("heads", **HEADS)
    found = collected(settings, "gbrgb")
    assert found.kinds == ["good", "bad", "rejected", "good", "bad"]
    assert found.numbers("bad") == [1, 4]
    told = found.summary()
    assert {name: told[name] for name in ("trials", "successes", "good", "bad", "rejected")} == {
        "trials": 10,
        "successes": 3,  # the good heads' second trainings passed the threshold, but did not end above it
        "good": 2,
        "bad": 2,
        "rejected": 1,
    }
    assert not collected(settings, "ggggbbbr").complete
    assert collected(settings, "ggggbbbrb").complete
    assert collected(settings, "r" * 20).complete


def test_scenarios_draw_distinct_heads_of_their_kind(caplog: pytest.LogCaptureFixture) -> None:
    settings = settings_of("heads", **HEADS)
    found = collected(settings, "gbbgbgbg")
    numbers = {kind: {1_000_000 + number for number in found.numbers(kind)} for kind in ("good", "bad")}
    drawn = {scenario: draws(settings, found, scenario) for scenario in SCENARIOS}
    for scenario, good in (("all_bad", 0), ("one_good", 1)):
        assert len(drawn[scenario]) == 6
        for seeds in drawn[scenario]:
            assert len(set(seeds)) == 3
            assert len(set(seeds) & numbers["good"]) == good
            assert len(set(seeds) & numbers["bad"]) == 3 - good
    pool = set(range(2_000_000, 2_000_005))
    assert all(set(seeds) <= pool and len(set(seeds)) == 3 for seeds in drawn["random"])
    assert draws(settings, collected(settings, "gbbg"), "all_bad") == []
    assert "only 2 bad heads among 4 tried, but 3 are needed" in caplog.text


@pytest.mark.parametrize("variant", ["printed", "released"])
def test_all_but_the_heads_comes_from_one_stored_initialisation(variant: str) -> None:
    settings = settings_of("heads", **HEADS, variant=variant, initial_seed=4)
    heads = Heads(settings)
    one, several = heads.model([11]), heads.model([12, 11, 13])
    own = {"bilinear.weight", "bilinear.bias"}
    own |= {"from_context.weight", "from_context.bias"} if variant == "released" else set()
    stored = initial_weights(model_settings(settings, variant), 7, 4)  # type: ignore[arg-type]
    for name, weight in one.items():
        if name in own:
            assert not torch.equal(weight, stored[name])
            assert torch.equal(several[name].chunk(3)[1], weight), name
        else:
            assert torch.equal(weight, stored[name])
            assert torch.equal(several[name], stored[name])
    lesson = CopyLesson(CopyTask("permutation", settings), model_settings(settings, variant, 3))  # type: ignore[arg-type]
    assert lesson.build([several]).losses(lesson.batch([1], 0, evaluation=False)).shape == (1,)


# ---- settings


def test_defaults_are_the_published_sizes() -> None:
    for task, kind in TASKS.items():
        properties = schema_of(kind)["properties"]
        default = {name: rule.get("default") for name, rule in properties.items()}
        assert (default["words"], default["hidden"], default["learning_rate"]) == (40, 256, 1e-3)
        assert default["steps"] == (300 if task == "permuted_copy" else 200)
        for name, rule in properties.items():
            assert "enum" in rule or {"minimum", "maximum"} <= rule.keys() or "exclusiveMinimum" in rule, (task, name)
    assert (TASKS["control"]().vocabulary, TASKS["mixture"]().vocabulary) == (60, 80)


@pytest.mark.parametrize(
    ("task", "changes", "message"),
    [
        ("control", {"pool": 6}, r"settings\.pool: 6 words are too few for sentences of 7"),
        ("permutation", {"pool": 60}, r"settings\.pool: unknown key 'pool'"),
        ("keyword", {"near_end": 7}, r"settings\.near_end: 7 must be less than words"),
        ("keyword", {"evaluate_samples": 13}, r"settings\.evaluate_samples: 13 must be at least 14"),
        ("heads", {"random_pool": 3}, r"settings\.random_pool: 3 are too few to draw 8"),
        ("heads", {"bad_below": 0.99}, r"settings\.bad_below: 0\.99 is above good_above"),
        ("permutation", {"steps": 0}, r"settings\.steps: 0 must be at least 1"),
        ("copy", {}, "unknown toy task 'copy'"),
    ],
)
def test_wrong_settings_are_one_line(task: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        settings_of(task, **changes)


def test_steps_that_are_evaluated_and_groups() -> None:
    assert settings_of("permutation", steps=25).evaluated() == [0, 10, 20, 25]
    assert settings_of("permutation", steps=20).evaluated() == [0, 10, 20]
    paper = partial(toy_settings, "permutation", label="settings")
    assert paper({}).group_size(20) == 1
    assert paper({"hidden": 64, "batch": 32}).group_size(20) == 10
    assert paper({"hidden": 64, "batch": 32}).group_size(100) == 16
    assert paper({"side_by_side": 5}).group_size(20) == 5
    assert isinstance(settings_of("keyword", near_end=2), KeywordSettings)
