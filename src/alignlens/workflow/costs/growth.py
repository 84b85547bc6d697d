"""How the cost of a configuration grows: it is estimated again with one quantity changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from alignlens.workflow.costs.jobs import estimate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alignlens.workflow.costs.estimate import Estimate
    from alignlens.workflow.costs.rates import Rates
    from alignlens.workflow.costs.sizes import Sizes
    from alignlens.workflow.plan import Plan

#: A stage that takes less than this after the change is not worth a word.
_SMALL_HOURS = 0.05
_NOTICEABLE = 1.01


@dataclass(frozen=True)
class Growth:
    """One change, and how many times the core hours it costs: all together, and stages that it changes."""

    change: str
    total: float
    stages: dict[str, float]

    def as_json(self) -> dict[str, Any]:
        """Returns plain data."""
        return {"change": self.change, "total": self.total, "stages": self.stages}


def growth(plan: Plan, sizes: Sizes, rates: Rates, now: Estimate) -> list[Growth]:
    """Returns what every change costs, ``now`` being the cost without one."""
    changed = ((name, estimate(other, texts, rates)) for name, other, texts in _changes(plan, sizes))
    return [_compared(name, now, then) for name, then in changed]


def _changes(plan: Plan, sizes: Sizes) -> Iterator[tuple[str, Plan, Sizes]]:
    settings = plan.settings
    yield "twice the training pairs", plan, sizes.scaled(train=2)
    yield "twice the test sentences", plan, sizes.scaled(test=2)
    yield "twice the length of sentences", plan, sizes.scaled(length=2)
    if not settings.models:
        return
    for run in settings.models:
        more = (*settings.models, replace(run, name=f"another_{run.name}"))
        yield f"one more model like {run.name}", replace(plan, settings=replace(settings, models=more)), sizes
    seeds = (*settings.seeds, max(settings.seeds) + 1)
    yield "one more seed", replace(plan, settings=replace(settings, seeds=seeds)), sizes
    if any(plan.attribution.runs()):
        samples = 2 * settings.attribution.samples
        noisy = replace(settings, attribution=replace(settings.attribution, samples=samples))
        yield f"twice the noisy copies ({samples})", replace(plan, settings=noisy), sizes


def _compared(change: str, now: Estimate, then: Estimate) -> Growth:
    before = now.stages()
    factors = {
        stage: total.core_hours / before[stage].core_hours
        for stage, total in then.stages().items()
        if total.core_hours >= _SMALL_HOURS
    }
    stages = {stage: factor for stage, factor in factors.items() if factor >= _NOTICEABLE}
    return Growth(change, then.total().core_hours / now.total().core_hours, stages)
