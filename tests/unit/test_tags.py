"""Inline markup: what is taken out of the source stands around the linked words of the target."""

from __future__ import annotations

import random
import re

import pytest

from alignlens.alignment.tags import Marked
from alignlens.errors import InputError

DIAGONAL = [(k, k) for k in range(9)]


@pytest.mark.parametrize(
    ("source", "target", "links", "expected"),
    [
        ("the <b>cat</b> sleeps", "le chat dort", DIAGONAL, "le <b>chat</b> dort"),
        ("<b>the cat</b> sleeps", "dort le chat", [(0, 1), (1, 2), (2, 0)], "dort <b>le chat</b>"),
        ("<i>a <b>b</b></i> c", "x y z", DIAGONAL, "<i>x <b>y</b></i> z"),
        ("a <b>b c</b> d", "w x y z", [(1, 0), (2, 3)], "<b>w x y z</b>"),
        ('a <x id="1"/> b', "x y", DIAGONAL, 'x <x id="1"/> y'),
        ("a<x/> b", "x y", DIAGONAL, "x<x/> y"),
        ("a <x/>b", "y x", [(0, 1), (1, 0)], "<x/>y x"),
        ("a <b>b</b>", "x y", [(0, 0)], "x <b></b>y"),
        ("<b>a</b>", "", [], "<b></b>"),
        ("<b>a</b> <i>b</i>", "x y z", [(0, 0), (0, 2), (1, 1)], "<b>x</b> <i>y</i> z"),
        ("a <br/>", "x", DIAGONAL, "x <br/>"),
        ("2 < 3 > 1 &lt;b&gt;", "2 < 3 > 1 &lt;b&gt;", DIAGONAL, "2 < 3 > 1 &lt;b&gt;"),
        ("<b>a<i>b</i></b>", "x", DIAGONAL, "<b><i>x</i></b>"),
        ("<b></b> a", "x", DIAGONAL, "<b></b>x"),
    ],
)
def test_tags_go_where_their_words_go(source: str, target: str, links: list[tuple[int, int]], expected: str) -> None:
    assert Marked.of(source).carried(target, links) == expected


def test_the_line_without_tags_is_what_a_model_reads() -> None:
    assert Marked.of('<p>the <b>cat</b><x id="2"/> s<i>le</i>eps</p>').text == "the cat sleeps"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("a <b>b", "<b> is never closed"),
        ("a</b>", "</b> does not close the last open tag"),
        ("<b><i>a</b></i>", "</b> does not close the last open tag"),
    ],
)
def test_markup_that_is_not_closed_in_turn_is_one_line(line: str, told: str) -> None:
    with pytest.raises(InputError, match=f"text:7: {re.escape(told)}"):
        Marked.of(line, "text", 7)


def test_whatever_the_links_nothing_is_lost_and_all_is_well_formed() -> None:
    draw = random.Random(3)
    for _ in range(3000):
        length, others = draw.randint(0, 7), draw.randint(0, 7)
        source = marked(draw, [f"s{k}" for k in range(length)])
        target = " ".join(f"t{k}" for k in range(others))
        links = [
            (draw.randrange(length), draw.randrange(others)) for _ in range(draw.randint(0, 9)) if length and others
        ]
        made = Marked.of(source).carried(target, links)
        assert Marked.of(made).text.split() == target.split(), (source, made)
        assert sorted(re.findall(r"<[^>]*>", made)) == sorted(re.findall(r"<[^>]*>", source)), (source, made)


def marked(draw: random.Random, words: list[str], depth: int = 0) -> str:
    """Returns words with random tags, nested and side by side."""
    if depth > 3 or draw.random() < 0.2:
        return " ".join(words)
    cut = sorted(draw.randint(0, len(words)) for _ in range(2))
    name = draw.choice("abcdefg") + str(draw.randint(0, 99))
    before, inside, rest = words[: cut[0]], words[cut[0] : cut[1]], words[cut[1] :]
    point = draw.choice(["", f"<{name}x/>", f" <{name}x/> "])
    parts = [" ".join(before), f"<{name}>{marked(draw, inside, depth + 1)}</{name}>", point]
    return draw.choice([" ", ""]).join([" ".join(part for part in parts if part), marked(draw, rest, depth + 1)])
