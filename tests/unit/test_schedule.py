"""Learning rates in closed form."""

from __future__ import annotations

import pytest

from alignlens.errors import ConfigError
from alignlens.training.schedule import learning_rate
from alignlens.training.settings import TrainingSettings


def settings(**changes: object) -> TrainingSettings:
    values = {"learning_rate": 1.0, "warmup": 100, "warmup_start": 0.5, "max_updates": 300, **changes}
    return TrainingSettings.from_json(values)


@pytest.mark.parametrize("schedule", ["inverse_sqrt", "linear", "plateau", "constant"])
def test_the_rate_climbs_in_a_straight_line_to_its_peak(schedule: str) -> None:
    made = settings(schedule=schedule)
    assert learning_rate(made, 50) == pytest.approx(0.75)
    assert learning_rate(made, 100) == pytest.approx(1.0)


def test_after_the_peak_each_schedule_goes_its_way() -> None:
    assert learning_rate(settings(schedule="inverse_sqrt"), 400) == pytest.approx(0.5)
    assert learning_rate(settings(schedule="linear"), 300) == pytest.approx(1 / 201)
    assert learning_rate(settings(schedule="linear"), 200) == pytest.approx(101 / 201)
    assert learning_rate(settings(schedule="plateau"), 400, plateau_scale=0.25) == 0.25
    assert learning_rate(settings(schedule="constant"), 10_000) == 1.0


def test_the_printed_schedule_of_voita_has_the_peak_of_its_code() -> None:
    scale, warmup, dim = 4, 16_000, 512
    made = settings(learning_rate=scale * dim**-0.5 * warmup**-0.5, warmup=warmup, warmup_start=0.0)
    for update in (100, 16_000, 57_000):
        printed = scale * dim**-0.5 * min(update**-0.5, update * warmup**-1.5)
        assert learning_rate(made, update) == pytest.approx(printed)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_updates": None}, "or it would never stop"),
        ({"max_updates": None, "max_epochs": 3, "schedule": "linear"}, "linear falls to zero at max_updates"),
        ({"best_by": "bleu", "validate_sentences": 0}, "bleu needs validate_sentences"),
        ({"learning_rat": 1.0}, "did you mean learning_rate"),
    ],
)
def test_settings_that_cannot_work_say_why(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        settings(**changes)
