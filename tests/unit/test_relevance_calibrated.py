"""Relevance in calibrated Transformers: the slow oracle for every fusion, masks that change nothing, padding."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from calibrated_cases import SETTINGS as SMALL
from calibrated_cases import VARIANTS, filled, name_of, plain_twin, with_masks_of
from relevance_cases import (
    SETTINGS,
    VOCAB,
    assert_conserved,
    assert_nothing_beyond,
    assert_the_same_alone,
    batch,
    difference,
    found_in,
    prepared,
)
from relevance_oracle import Oracle, transformer
from torch import Tensor

from alignlens.attribution.relevance.alpha_beta import AlphaBeta, AlphaBetaSettings
from alignlens.attribution.relevance.calibrated import CalibratedRelevance
from alignlens.attribution.relevance.epsilon import Epsilon
from alignlens.attribution.relevance.transformer import TransformerRelevance
from alignlens.models.calibrated import Calibrated
from alignlens.models.settings import CalibratedSettings

WIDE = replace(SMALL, dim=32, ffn=48, heads=2)


def network(settings: CalibratedSettings) -> Calibrated:
    """Returns a model in double precision whose masks, gates and biases matter."""
    torch.manual_seed(3)
    model = prepared(Calibrated(settings, VOCAB, VOCAB))
    model.at_update(30)
    return model


def slow(model: Calibrated, oracle: Oracle, source: Tensor, prefix: Tensor, token: int) -> tuple[Tensor, Tensor, None]:
    return *transformer(model, oracle, source, prefix, token), None


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("kind", VARIANTS, ids=name_of)
def test_all_steps_at_once_equal_one_step_and_one_module_at_a_time(
    kind: CalibratedSettings, settings: AlphaBetaSettings
) -> None:
    assert difference(network(kind), CalibratedRelevance, slow, settings) < 1e-9


@pytest.mark.parametrize("rows", ["raw", "renorm"])
def test_masks_of_one_leave_the_relevance_of_the_transformer(rows: str) -> None:
    # But for the fusion fixed, whose rows sum to 1.1 then.
    settings = replace(SMALL, rows=rows)
    model = with_masks_of(filled(settings), 1.0)
    twin, some = plain_twin(model, settings), batch(model)
    for rules in (AlphaBeta(SETTINGS[0]), AlphaBeta(SETTINGS[1]), Epsilon(1e-5)):
        found = found_in(model, CalibratedRelevance(model, rules), some)
        expected = found_in(twin, TransformerRelevance(twin, rules), some)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("rows", ["raw", "renorm"])
def test_masks_move_relevance(rows: str) -> None:
    model = network(replace(WIDE, rows=rows))
    twin, some, rules = plain_twin(model, replace(WIDE, rows=rows)), batch(model), AlphaBeta(SETTINGS[0])
    found = found_in(model, CalibratedRelevance(model, rules), some)
    expected = found_in(twin, TransformerRelevance(twin, rules), some)
    assert float((found.source - expected.source).abs().max()) > 1e-4  # far above rounding: these are doubles


@pytest.mark.parametrize("rows", ["raw", "renorm"])
def test_relevance_is_conserved_and_what_comes_later_has_none(rows: str) -> None:
    model = network(replace(WIDE, rows=rows))
    found = found_in(model, CalibratedRelevance(model, AlphaBeta(AlphaBetaSettings())), batch(model))
    assert_conserved(found)
    assert_nothing_beyond(found)


@pytest.mark.parametrize("rows", ["raw", "renorm"])
def test_neither_padding_nor_the_batch_changes_anything(rows: str) -> None:
    assert_the_same_alone(network(replace(WIDE, rows=rows)), CalibratedRelevance)
