"""The tests of the claims about copy tasks: S07 to S11."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING

from alignlens.studies.claims import Finding, all_of, counted_cases, every, outcomes, verdict
from alignlens.studies.snell2021.published import stated
from alignlens.studies.snell2021.toys import CONTROL, LEARNED, MIXTURE, PERMUTATION, PERMUTED_COPY, changes
from alignlens.studies.tally import FAILED, Comparison, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alignlens.metrics.sampled import Sampled
    from alignlens.studies.snell2021.evidence import Evidence
    from alignlens.studies.snell2021.toys import Copy

TOYS = "toys"
STEPS = 200
"""How long the paper trains: who stops earlier has not failed."""
_NEVER = 10
"""A seed that never learns counts as this multiple of the last step: later than any that does, but finite."""


def permutations_may_fail(evidence: Evidence) -> Finding:
    """S07: not every seed learns to copy permutations."""
    toy, tally = evidence.toys.copy(PERMUTATION), evidence.tally()
    if toy is None:
        return not_run(PERMUTATION)
    learned = toy.converged()
    apart = -evidence.share(toy.name, learned, toy.seeds) + 1
    tally.add(_place(toy), _settled(evidence, apart, _is_settled(toy, learned), "some seed fails"))
    return counted_cases(tally, numbers=ends(toy), remark=_short(toy, STEPS))


def control_is_learned(evidence: Evidence) -> Finding:
    """S08: every seed learns to copy words drawn from a larger set."""
    toy, tally = evidence.toys.copy(CONTROL), evidence.tally()
    if toy is None:
        return not_run(CONTROL)
    learned = _learned(toy.first_steps())
    tally.add(_place(toy), _all_learn(evidence, toy, learned, _is_settled(toy, learned)))
    numbers = f"{learned} of {toy.seeds} seeds reach {LEARNED}, {toy.converged()} end above it"
    return counted_cases(tally, numbers=numbers, remark=_short(toy, STEPS))


def permutations_take_longer(evidence: Evidence) -> Finding:
    """S09: the median first step of permutations is later."""
    slow, fast = evidence.toys.copy(PERMUTATION), evidence.toys.copy(CONTROL)
    if slow is None or fast is None:
        return not_run(PERMUTATION if slow is None else CONTROL)
    never, tally = _NEVER * max(slow.steps[-1], fast.steps[-1]), evidence.tally()
    medians = [evidence.median(toy.name, [min(step, never) for step in toy.first_steps()]) for toy in (slow, fast)]
    tally.add(Place(TOYS, "median step"), tally.above(medians[0], medians[1]))
    steps = [_step(median(toy.first_steps())) for toy in (slow, fast)]
    numbers = f"permutations: {steps[0]}, {slow.seeds} seeds; control: {steps[1]}, {fast.seeds} seeds"
    both = "neither is learned by half of its seeds" if steps == ["never"] * 2 else ""
    changed = dict.fromkeys(changes(toy.task, toy.settings) for toy in (slow, fast))
    remark = _joined(both, f"a seed that never learns counts as {never:,} steps", *changed)
    return counted_cases(tally, numbers=numbers, remark=remark)


def mixture_fails_too(evidence: Evidence) -> Finding:
    """S10: fewer seeds learn the mixture than the control."""
    mixture, control = evidence.toys.copy(MIXTURE), evidence.toys.copy(CONTROL)
    if mixture is None or control is None:
        return not_run(MIXTURE if mixture is None else CONTROL)
    tally = evidence.tally()
    shares = [evidence.share(toy.name, toy.converged(), toy.seeds) for toy in (mixture, control)]
    tally.add(Place(TOYS, "share of seeds"), tally.below(shares[0], shares[1]))
    remark = _joined(*dict.fromkeys(changes(toy.task, toy.settings) for toy in (mixture, control)))
    return counted_cases(tally, numbers=f"mixture: {ends(mixture)}; control: {ends(control)}", remark=remark)


def order_of_positions_matters(evidence: Evidence) -> Finding:
    """S11: no seed learns the permuted copy, every seed the plain one."""
    permuted, plain = evidence.toys.longest(PERMUTED_COPY), evidence.toys.longest(CONTROL)
    if permuted is None or plain is None:
        return not_run(PERMUTED_COPY if permuted is None else CONTROL)
    limit = int(stated()["copy_40_of_60_steps"])
    never, always = evidence.tally(), evidence.tally()
    wrong, learned = permuted.converged(), _learned(plain.first_steps(limit))
    enough = wrong > 0 or (not _few(permuted) and permuted.steps[-1] >= limit)
    share = evidence.share(permuted.name, wrong, permuted.seeds)
    never.add(_place(permuted), _settled(evidence, -share, enough, "no seed learns", strict=False))
    if learned == plain.seeds or plain.steps[-1] >= limit:
        always.add(_place(plain), _all_learn(evidence, plain, learned, learned < plain.seeds or not _few(plain)))
    elif FAILED not in outcomes(never):
        return Finding(remark=f"plain copying ended after {plain.steps[-1]} steps, before all seeds had learned it")
    numbers = (
        f"permuted: {wrong} of {permuted.seeds} seeds in {permuted.steps[-1]:,} steps; plain: {learned} of "
        f"{plain.seeds} in {min(limit, plain.steps[-1])}"
    )
    remark = _joined(f"plain copying: task {plain.name}, {plain.steps[-1]:,} steps", _short(permuted, limit))
    both = all_of(verdict(every, outcomes(tally)) for tally in (never, always))
    return Finding(both, never + always, numbers, remark=remark)


TESTS: dict[str, Callable[[Evidence], Finding]] = {
    "S07": permutations_may_fail,
    "S08": control_is_learned,
    "S09": permutations_take_longer,
    "S10": mixture_fails_too,
    "S11": order_of_positions_matters,
}


def _all_learn(evidence: Evidence, toy: Copy, learned: int, settled: bool) -> Comparison:
    apart = evidence.share(toy.name, learned, toy.seeds) - 1
    return _settled(evidence, apart, settled, "every seed learns", strict=False)


def _settled(evidence: Evidence, apart: Sampled, settled: bool, claimed: str, strict: bool = True) -> Comparison:
    """Returns a comparison about all seeds or none: exact if it is settled, and within noise if it is not.

    One seed that fails refutes that all learn, for good. That all so far have learned proves it for these alone.
    """
    if settled:
        return Comparison(apart.value, strict=strict, claimed=claimed)
    low, high = apart.interval(evidence.draws.level) or (0.0, 0.0)
    return Comparison(apart.value, min(low, 0.0), max(high, 0.0), strict, claimed)


def _is_settled(toy: Copy, learned: int) -> bool:
    """Returns whether neither more seeds (if all have learned) nor more steps (if some have not) could change it."""
    return not _few(toy) if learned == toy.seeds else toy.steps[-1] >= STEPS


def _few(toy: Copy) -> bool:
    return toy.seeds < stated()["copy_task_seeds"]


def _learned(steps: Sequence[float]) -> int:
    return sum(map(math.isfinite, steps))


def _short(toy: Copy, steps: int) -> str:
    """Returns what was less than in the paper."""
    seeds = stated()["copy_task_seeds"]
    few = f"{toy.seeds} of {seeds:g} seeds" if _few(toy) else ""
    short = f"{toy.steps[-1]} of {steps} steps" if toy.steps[-1] < steps else ""
    return _joined(few, short, changes(toy.task, toy.settings))


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _step(step: float) -> str:
    return "never" if math.isinf(step) else f"step {step:g}"


def ends(toy: Copy) -> str:
    """Returns how many seeds end above the threshold."""
    return f"{toy.converged()} of {toy.seeds} seeds end above {LEARNED}"


def not_run(task: str) -> Finding:
    """Returns the finding for a generated task that is not there."""
    return Finding(remark=f"the task {task} was not run")


def _place(toy: Copy) -> Place:
    return Place(TOYS, toy.name)
