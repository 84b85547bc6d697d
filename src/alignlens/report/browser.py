"""The browser of sentences: a page of its own in a folder of its own, complete in itself.

It shows what every model looked at, by method, and what word aligners linked, with gold links. A small set is one file.
Of a large one the scores are scripts beside the page, one per model and method, which it loads when they are asked for:
neither needs a server.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens import __version__
from alignlens.alignment.extractions import EXTRACTIONS
from alignlens.attribution.registry import in_order, parse, written
from alignlens.display.pages import asset, embedded_json, page
from alignlens.io.atomic import atomic_directory, write_text
from alignlens.io.text import words
from alignlens.report.packing import chunks
from alignlens.report.systems import best_aligners, best_method
from alignlens.report.tables import labels_of
from alignlens.results.paths import FORCED
from alignlens.subwords.spans import join

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.display.sentences import Side
    from alignlens.report.attributed import Asked, Text
    from alignlens.report.collect import TestSet
    from alignlens.report.systems import System
    from alignlens.results.scores import ScoredAligner

KIND = "browser of sentences"
PAGE, CHUNKS = "index.html", "data"
#: Scores, about a byte each in the page, up to which everything is one file, datasets together. The demo has 110,000
#: of a sentence.
ONE_FILE = 8_000_000
#: If fewer sentences of every dataset than this fit into one file, scores are files of their own.
LEAST = 50
#: The same for these files together, and the most sentences of a dataset.
FOLDER, MOST = 200_000_000, 1000
_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class BrowserSet:
    """A dataset of the browser: its text, word aligners and models, and its sentences, the most instructive first."""

    test_set: TestSet
    scored: Sequence[ScoredAligner]
    asked: Sequence[Asked]
    systems: Sequence[System]
    """The best of all, for heatmaps."""
    order: Sequence[int]
    pair: tuple[str, str]

    def costs(self) -> list[int]:
        """Returns how many scores there are of every sentence, in the order of the sentences."""
        cells = [asked.cells() for asked in self.asked]
        return [sum(int(each[number]) for each in cells) for number in self.order]


def write_browser(folder: Path, title: str, report: str, sets: Sequence[BrowserSet]) -> None:
    """Writes the page, and the scores beside it if they are too many for one file."""
    counts, one_file = shown_counts([each.costs() for each in sets])
    embedded: list[tuple[int, str]] = []
    with atomic_directory(folder, KIND) as new_folder:
        contents: list[dict[str, Any]] = []
        number = 0
        if not one_file:
            (new_folder / CHUNKS).mkdir()
        for each, count in zip(sets, counts, strict=True):
            numbers = sorted(each.order[:count])
            contents.append(set_data(each, numbers, number))
            for packed in (
                packed for asked in each.asked for packed in chunks(asked, in_order(asked.methods), numbers)
            ):
                if one_file:
                    embedded.append((number, packed))
                else:
                    (new_folder / CHUNKS / f"{number}.js").write_text(f'alignlensChunk({number},"{packed}");\n')
                number += 1
        write_text(new_folder / PAGE, browser_page(title, report, contents, embedded, one_file))


def browser_page(
    title: str,
    report: str,
    contents: Sequence[dict[str, Any]],
    embedded: Sequence[tuple[int, str]] = (),
    complete: bool = True,
) -> str:
    """Returns the page; ``report`` is where the report is from there, ``complete`` whether it holds all scores."""
    return page(
        _TEMPLATES / "browser.html.j2",
        title=title,
        report=report,
        version=__version__,
        counts=[f"{each['name']}: {len(each['numbers']):,} of {each['total']:,} test sentences" for each in contents],
        some=any(len(each["numbers"]) < each["total"] for each in contents),
        sentences=embedded_json(list(contents)),
        chunks=embedded,
        complete=complete,
        browser_css=asset(_TEMPLATES / "browser.css"),
        browser_js="\n".join(asset(_TEMPLATES / name) for name in ("browser_data.js", "browser_grid.js", "browser.js")),
    )


def shown_counts(costs: Sequence[Sequence[int]]) -> tuple[list[int], bool]:
    """Returns how many sentences of every dataset are shown, given what each costs, and whether in one file."""

    def fitting(most: int) -> list[int]:
        room = most // max(1, len(costs))
        return [sum(total <= room for total in accumulate(each[:MOST])) for each in costs]

    counts = fitting(ONE_FILE)
    if all(count >= min(LEAST, len(each)) for count, each in zip(counts, costs, strict=True)):
        return counts, True
    return [max(1, count) for count in fitting(FOLDER)], False


def set_data(shown: BrowserSet, numbers: Sequence[int], first: int = 0) -> dict[str, Any]:
    """Returns what the page knows of a dataset before it has any scores; those of its first method are chunk ``first``.

    A link of word aligners is a bit along ``cells``: all links of a sentence that any of them has, flat (source,
    target, source, target ...), four to a hexadecimal digit, lowest bit first.
    """
    directions = ["-".join(shown.pair), "-".join(reversed(shown.pair))]
    texts: list[list[dict[str, Any]]] = []
    places: dict[int, int] = {}
    models: dict[str, list[dict[str, Any]]] = {}
    for asked in shown.asked:
        if id(asked.text) not in places:
            places[id(asked.text)] = len(texts)
            texts.append(_text_data(asked.text, numbers))
        entry = _model_data(asked, places[id(asked.text)], first)
        first += len(entry["methods"])
        models.setdefault(asked.direction, []).append(entry)
    if not models:
        models[directions[0]] = []
        texts.append(_words_data(shown.test_set, numbers))
    labels = labels_of(shown.test_set.dataset, shown.scored)
    rates = {(item.id, row.links): row.aer for item in shown.scored for row in item.rows}
    return {
        "name": shown.test_set.dataset,
        "total": len(shown.test_set.gold),
        "numbers": list(numbers),
        "texts": texts,
        "directions": [
            {
                "name": name,
                "languages": list(reversed(shown.pair) if name == directions[1] else shown.pair),
                "reverse": name == directions[1],
                "text": next((entry["text"] for entry in models[name] if entry["decoding"] == FORCED), 0),
                "models": models[name],
                "start": _start(shown, name),
            }
            for name in directions
            if name in models
        ],
        "aligners": [
            {"who": labels[run], "links": links, "aer": _rate(rates[run, links])}
            for run, links in shown.test_set.systems
        ],
        "aligned": [_aligned(shown.test_set, number) for number in numbers],
    }


def _start(shown: BrowserSet, direction: str) -> list[dict[str, str]]:
    """Returns the two panels at the start: the best method of all models, and the attention of the same model."""
    ranked = [
        (choice[2].aer, asked, choice[0], choice[1])
        for asked in shown.asked
        if asked.direction == direction and asked.text.decoding == FORCED and (choice := best_method(asked)) is not None
    ]
    best = min(ranked, key=lambda entry: entry[0], default=None)
    panels = []
    if best is not None:
        _, asked, method, extraction = best
        for name in dict.fromkeys([method, "attention"]):
            if name in asked.methods:
                panels.append({"who": asked.run.model, "decoding": FORCED, "method": name, "links": extraction})
    labels = labels_of(shown.test_set.dataset, shown.scored)
    for run, links in best_aligners(shown.test_set, shown.scored):
        panels.append({"who": labels[run], "links": links})
    return panels[:2]


def _model_data(asked: Asked, text: int, first: int) -> dict[str, Any]:
    methods = in_order(asked.methods)
    parsed = [parse(method) for method in methods]
    facets: dict[str, set[str]] = {}
    for name in dict.fromkeys(method.name for method in parsed):
        settings = [method.parameters for method in parsed if method.name == name]
        facets[name] = {key for key in settings[0] if len({written(values[key]) for values in settings}) > 1}
    return {
        "who": asked.run.model,
        "decoding": asked.text.decoding,
        "text": text,
        "begin": asked.begin,
        "methods": [
            {
                "method": method.text,
                "name": method.name,
                "parameters": {
                    key: written(value) for key, value in method.parameters.items() if key in facets[method.name]
                },
                "aer": {each: _rate(score.aer) for each in EXTRACTIONS if (score := asked.score(method.text, each))},
                "prefix": asked.prefix(method.text) is not None,
                "chunk": first + place,
            }
            for place, method in enumerate(parsed)
        ],
    }


def _text_data(text: Text, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Returns a text by sentence: words, pieces as they are shown, the word of each, and gold links, flat."""
    from alignlens.display.matrix_heatmap import labels

    def side_data(side: Side) -> dict[str, Any]:
        return {"words": words(join(side.pieces)), "pieces": labels(side)[:-1], "owners": side.word_of_piece}

    return [
        {
            "source": side_data(text.source[number]),
            "target": side_data(text.target[number]),
            "sure": _flat(text.sure[number]),
            "possible": _flat(text.possible[number]),
        }
        for number in numbers
    ]


def _words_data(test_set: TestSet, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Returns the text for word aligners alone: every word is its only piece."""

    def side_data(line: list[str]) -> dict[str, Any]:
        return {"words": line, "pieces": line, "owners": list(range(len(line)))}

    return [
        {
            "source": side_data(test_set.source[number]),
            "target": side_data(test_set.target[number]),
            "sure": _flat(test_set.gold.sure[number]),
            "possible": _flat(test_set.gold.possible[number]),
        }
        for number in numbers
    ]


def _aligned(test_set: TestSet, number: int) -> dict[str, Any]:
    links = [set(alignment[number]) for alignment in test_set.systems.values()]
    cells = sorted(set().union(*links))
    return {"cells": _flat(cells), "has": [_bits([cell in linked for cell in cells]) for linked in links]}


def _rate(aer: float) -> float | None:
    return None if aer != aer else round(aer, 2)


def _flat(links: Sequence[tuple[int, int]]) -> list[int]:
    return [index for link in links for index in link]


def _bits(flags: Sequence[bool]) -> str:
    digits = []
    for start in range(0, len(flags), 4):
        digits.append(sum(1 << k for k, flag in enumerate(flags[start : start + 4]) if flag))
    return "".join(f"{digit:x}" for digit in digits)
