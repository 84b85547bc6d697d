from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alignlens.alignment.links import Alignment
from alignlens.alignment.stacking import stack, unstack
from alignlens.alignment.symmetrize import symmetrize

links = st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=6)
corpora = st.lists(st.lists(st.tuples(links, links), max_size=4), max_size=4)


@given(corpora)
def test_corpora_come_back_and_are_treated_alike(corpora: list[list[tuple[set[tuple[int, int]], ...]]]) -> None:
    forward, reverse = ([Alignment.from_pairs([pair[side] for pair in part]) for part in corpora] for side in (0, 1))
    sizes = [len(part) for part in corpora]
    whole = stack(forward)
    assert list(whole) == [found for part in forward for found in part]
    assert unstack(whole, sizes) == forward
    together = unstack(symmetrize(whole, stack(reverse), "grow-diag-final"), sizes)
    assert together == [symmetrize(*both, "grow-diag-final") for both in zip(forward, reverse, strict=True)]


def test_parts_must_be_the_whole() -> None:
    with pytest.raises(ValueError, match="parts of 3 sentence pairs of 2"):
        unstack(Alignment.from_pairs([[], []]), [1, 2])
