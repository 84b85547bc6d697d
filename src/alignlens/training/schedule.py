"""The learning rate of an update: a pure function, so that a resumed run needs no state for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alignlens.training.settings import TrainingSettings


def learning_rate(settings: TrainingSettings, update: int, plateau_scale: float = 1.0) -> float:
    """Returns the rate of an update (counted from 1).

    All schedules climb linearly from ``warmup_start`` to the peak over ``warmup`` updates. Then ``inverse_sqrt``
    falls as peak * sqrt(warmup / update), ``linear`` to zero at ``max_updates``, ``plateau`` stays at
    peak * ``plateau_scale`` (shrunk by the loop when the dev loss no longer falls), ``constant`` stays.
    """
    peak, warmup = settings.learning_rate, settings.warmup
    if update < warmup:
        return settings.warmup_start + (peak - settings.warmup_start) * update / warmup
    if settings.schedule == "inverse_sqrt":
        return peak * float((max(warmup, 1) / update) ** 0.5)
    if settings.schedule == "linear" and settings.max_updates is not None:
        return peak * max(settings.max_updates + 1 - update, 0) / max(settings.max_updates + 1 - warmup, 1)
    return peak * plateau_scale
