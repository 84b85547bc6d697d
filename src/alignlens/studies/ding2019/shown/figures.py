"""Which panels the figures of the study show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.display.matrix_heatmap import Panel, draw_matrices
from alignlens.results.protocol import ARCHITECTURES
from alignlens.studies.ding2019.layout import METHODS, SIGMAS

if TYPE_CHECKING:
    from alignlens.display.heatmap import Drawing
    from alignlens.display.sentences import Example
    from alignlens.results.protocol import Protocol

_FIRST = ("attention", "smoothed_attention", "li_smoothgrad", "ding_grad", "ding_smoothgrad")
_SECOND = ("li_grad", "ding_grad", "li_smoothgrad", "ding_smoothgrad")


def figures(example: Example, protocol: Protocol) -> dict[str, tuple[Drawing, str]]:
    """Returns the figures of a sentence with their captions: by method, Li against Ding, by noise level."""
    where = f"{example.dataset} {example.direction}, test sentence {example.number + 1}"
    drawings = {
        "figure1": (_by_method(example, protocol, _FIRST, f"{where}: scores by method"), f"{where}: scores by method"),
        "figure2": (
            _by_method(example, protocol, _SECOND, f"{where}: unsigned (Li et al.) and signed (Ding et al.) saliency"),
            f"{where}: unsigned saliency (Li et al.) against signed saliency (Ding et al.), without noise and with it",
        ),
    }
    transformers = [name for name in example.rows if name.startswith(ARCHITECTURES["transformer"])]
    if transformers:
        caption = f"{where}: signed saliency by noise level σ"
        rows = [
            (
                name,
                [Panel(f"σ = {sigma:g}", example.rows[name].get(protocol.at_sigma(sigma))) for sigma in SIGMAS],
            )
            for name in transformers
        ]
        drawings["figure3"] = draw_matrices(example, rows, caption), f"{caption}, n = {protocol.samples} copies"
    return drawings


def _by_method(example: Example, protocol: Protocol, methods: tuple[str, ...], caption: str) -> Drawing:
    rows = [
        (name, [Panel(METHODS[method], matrices.get(protocol.method(method))) for method in methods])
        for name, matrices in example.rows.items()
    ]
    return draw_matrices(example, rows, caption)
