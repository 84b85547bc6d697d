from __future__ import annotations

import math

import pytest

from alignlens.metrics.bleu import corpus_bleu


def test_bleu_in_closed_form_with_its_signature() -> None:
    # Six words, one wrong in the middle: n-gram precisions 5/6, 3/5, 2/4, 1/3, no brevity penalty.
    result = corpus_bleu(["a b c x d e"], ["a b c y d e"], tokenize="none")
    with pytest.raises(ValueError, match="2 hypotheses for 1"):
        corpus_bleu(["a", "b"], ["a"])
    smoothed = [5 / 6, 3 / 5, 1 / 4, 1 / (2 * 3)]
    assert result.bleu == pytest.approx(100 * math.exp(sum(map(math.log, smoothed)) / 4))
    assert "tok:none" in result.signature
    assert "version:" in result.signature
    assert corpus_bleu(["a b c d"], ["a b c d"]).bleu == pytest.approx(100)
