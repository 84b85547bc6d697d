"""Inline markup: taken out of a source line, and put around the words of its translation that are linked with it.

``<b>``…``</b>`` spans words, ``<x id="1"/>`` stands between two. In the target a span covers everything from the first
to the last word that is linked with one of its words. What comes out is well-formed, and no tag is lost: spans that
stood beside each other may not overlap, so the shorter one keeps its words; a span whose words have no link is empty,
and stands where the word before it went.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from alignlens.errors import InputError
from alignlens.io.text import words

_TAG = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z_][\w:.-]*)(?:\s[^<>]*?)?(?P<alone>/?)>")
_WORD = re.compile(r"[^ \t]+")
_ADVICE = "Close every tag in the right order, or leave out --tags."


@dataclass
class Tag:
    """A tag over the words ``start`` to ``stop`` of its line, or between two of them, with the tags inside."""

    opening: str
    start: int
    stop: int
    closing: str = ""
    spaced: bool = False  # whether it has spaces on both sides
    after: bool = False  # whether it is attached to the word before
    inner: list[Tag] = field(default_factory=list)


@dataclass(frozen=True)
class Marked:
    """A line without its tags, and the tags."""

    text: str
    tags: list[Tag]

    @classmethod
    def of(cls, line: str, path: str = "", number: int | None = None) -> Marked:
        """Returns a parsed line; raises for tags that are not properly nested, naming file and line."""
        text, at = "", 0
        markups: list[tuple[re.Match[str], int]] = []
        for match in _TAG.finditer(line):
            text += line[at : match.start()]
            markups.append((match, len(text)))
            at = match.end()
        text += line[at:]
        spans = [match.span() for match in _WORD.finditer(text)]
        opened, tags = list[tuple[str, Tag]](), list[Tag]()
        for match, place in markups:
            level = opened[-1][1].inner if opened else tags
            begun, ended = sum(start < place for start, _ in spans), sum(stop <= place for _, stop in spans)
            if match["end"]:
                if not opened or opened[-1][0] != match["name"]:
                    raise InputError(f"{match[0]} does not close the last open tag.", path, number, _ADVICE)
                tag = opened.pop()[1]
                tag.closing, tag.stop = match[0], max(tag.start, begun)
                continue
            left, right = line[: match.start()][-1:], line[match.end() :][:1]
            tag = Tag(match[0], ended, ended, spaced=left in ("", " ") and right in ("", " "))
            tag.after = not tag.spaced and right in ("", " ")
            level.append(tag)
            if not match["alone"]:
                opened.append((match["name"], tag))
        if opened:
            raise InputError(f"{opened[-1][1].opening} is never closed.", path, number, _ADVICE)
        return cls(text, tags)

    def carried(self, target: str, links: Iterable[tuple[int, int]]) -> str:
        """Returns the target line with all tags, by links (source word, target word)."""
        known = list(words(target))
        reached: dict[int, list[int]] = {}
        for source, word in links:
            reached.setdefault(source, []).append(word)
        placed = _apart([_placed(tag, reached, len(known)) for tag in self.tags], 0, len(known))
        return _written(known, list(_items(placed, 0, len(known))))


class _Span(NamedTuple):
    """A tag over target words, or before the first of them, with the tags inside."""

    start: int
    stop: int
    tag: Tag
    inner: list[_Span]


def _placed(tag: Tag, reached: dict[int, list[int]], length: int) -> _Span:
    """Returns where a tag would go if there were no others beside it."""
    inner = [_placed(each, reached, length) for each in tag.inner]
    covered = [word for source in range(tag.start, tag.stop) for word in reached.get(source, ())]
    edges = [edge for each in inner for edge in (each.start, each.stop)]
    edges += [edge for word in covered for edge in (word, word + 1)]
    if not edges:
        edges = [_between(tag, reached)]
    start, stop = min(edges), min(max(edges), length)
    return _Span(start, stop, tag, _apart(inner, start, stop))


def _between(tag: Tag, reached: dict[int, list[int]]) -> int:
    """Returns the place of a tag that covers no linked word: before the next word, or after the previous one."""
    if not tag.after and (following := reached.get(tag.stop)):
        return min(following)
    before = (reached[source] for source in range(tag.start - 1, -1, -1) if source in reached)
    return max(next(before, [-1])) + 1


def _apart(spans: Sequence[_Span], low: int, high: int) -> list[_Span]:
    """Returns spans beside each other, none of which overlaps another, in the order of the target."""
    taken: list[tuple[int, int]] = []
    kept: dict[int, _Span] = {}
    for number, span in sorted(enumerate(spans), key=lambda pair: (pair[1].stop - pair[1].start, pair[0])):
        free = [(max(low, span.start), min(high, span.stop))]
        for start, stop in taken:
            free = [part for begin, end in free for part in ((begin, min(end, start)), (max(begin, stop), end))]
        begin, end = max(free, key=lambda part: part[1] - part[0])
        if end <= begin:
            begin = end = _outside(min(max(span.start, low), high), taken)
        else:
            taken.append((begin, end))
        kept[number] = span._replace(start=begin, stop=end, inner=_apart(span.inner, begin, end))
    order = sorted(kept, key=lambda number: (kept[number].start, kept[number].stop, number))
    return [kept[number] for number in order]


def _outside(place: int, taken: Sequence[tuple[int, int]]) -> int:
    """Returns the place nearest to one that splits no span."""
    for start, stop in taken:
        if start < place < stop:
            return start if place - start <= stop - place else stop
    return place


def _items(spans: Sequence[_Span], low: int, high: int) -> Iterator[tuple[str, Tag | int]]:
    """Yields what is written, in turn: words, and where tags open and close."""
    at = low
    for span in spans:
        yield from (("word", number) for number in range(at, span.start))
        if span.tag.closing:
            yield "open", span.tag
            yield from _items(span.inner, span.start, span.stop)
            yield "close", span.tag
        else:
            yield "alone", span.tag
        at = max(at, span.stop)
    yield from (("word", number) for number in range(at, high))


def _written(known: Sequence[str], items: Sequence[tuple[str, Tag | int]]) -> str:
    line, space = "", False  # whether a space comes before the next word
    for kind, item in items:
        if isinstance(item, int):
            line, space = f"{line}{' ' if space else ''}{known[item]}", True
        elif kind == "close":
            line += item.closing
        elif kind == "alone" and item.after and space:
            line += item.opening
        else:
            line = f"{line}{' ' if space else ''}{item.opening}"
            space = kind == "alone" and item.spaced
    return line
