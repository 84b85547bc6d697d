"""Names of methods: what may be written, what it means, and what is wrong."""

from __future__ import annotations

import pytest

from alignlens.attribution.registry import METHODS, parse
from alignlens.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("smoothgrad", "ding_smoothgrad"),
        ("ding_smoothgrad,sigma=0.15,n=30", "ding_smoothgrad"),
        ("ding_smoothgrad,n=10,sigma=0.050", "ding_smoothgrad,sigma=0.05,n=10"),
        ("attention,head=2,layer=-1", "attention,layer=-1,head=2"),
        ("li_grad,reading=mean_abs", "li_grad"),
    ],
)
def test_canonical_names(given: str, canonical: str) -> None:
    assert parse(given).text == canonical
    assert parse(canonical) == parse(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("smothgrad", "did you mean smoothgrad"),
        ("ding_grad,sigma=1", "unknown parameter 'sigma'"),
        ("smoothgrad,n=0", "n=0: must be a number from 1"),
        ("smoothgrad,n=2,n=3", "give n once"),
        ("smoothgrad,sigma=nan", "must be a number from 0"),
        ("attention,layer=top", "paper, mean or a number"),
        ("", "unknown method"),
    ],
)
def test_names_that_are_wrong(given: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(given)


def test_every_method_says_who_published_it_and_what_it_costs() -> None:
    for name, spec in METHODS.items():
        assert spec.name == name
        assert spec.summary
        assert spec.paper
        assert spec.equation
        assert "forward" in spec.cost
