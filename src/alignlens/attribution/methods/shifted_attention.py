"""Attention of the step that reads a word (SHIFT-ATT of Chen et al. 2020), of a layer in the middle of the decoder.

A decoder that has read a word knows which one is to be aligned; the step that predicts it does not. Chen et al.
average the heads of one layer, and choose the layer whose links of both directions agree best: the third of six.
``middle`` is that one, in any decoder: of an even number of layers the lower of the two. The row of the end symbol,
which is never used, is that of the step that predicts it.
"""

from __future__ import annotations

from alignlens.attribution.methods import attention
from alignlens.attribution.spec import HEAD, MethodSpec, one_of, place

SPEC = MethodSpec(
    name="shifted_attention",
    summary="weights of the attention to the source at the step that reads the word, of a middle layer",
    paper="Chen et al. 2020, SHIFT-ATT",
    equation="mean over heads of a[h,j+1,i]",
    cost="1 forward",
    passes=attention.SPEC.passes,
    parameters={
        "layer": place(
            "middle", "mean", about="`middle`: the third of six, the lower of two; otherwise as of `attention`"
        ),
        **HEAD,
        "step": one_of("in", about="row j is of the step that reads piece j"),
    },
    rank=15,
)
