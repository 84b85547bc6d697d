"""``alignlens plan``: what a configuration would run and what that would cost, before it runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.cli.numbers import real
from alignlens.errors import ConfigError
from alignlens.io.limits import TFLOPS
from alignlens.results.paths import FINAL, TEST
from alignlens.workflow.costs.growth import growth
from alignlens.workflow.costs.jobs import estimate
from alignlens.workflow.costs.rates import Rates
from alignlens.workflow.costs.sizes import sizes_of
from alignlens.workflow.plan import Plan
from alignlens.workflow.settings import load_settings, read_config

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from alignlens.workflow.costs.estimate import Estimate, Total
    from alignlens.workflow.costs.growth import Growth


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument(
        "--configfile", nargs="+", default=[], metavar="FILE", help="merged over config/config.yaml, as for snakemake"
    )
    parser.add_argument("--results", default="results", help="results folder (default: results)")
    parser.add_argument(
        "--gpu-tflops",
        type=real(TFLOPS),
        metavar="X",
        help="sustained speed of a GPU in training, in 10^12 operations per second (default: gpu of config/rates.yaml, "
        "5, an assumption, not a measurement)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.epilog = (
        "example:\n  alignlens plan --configfile config/presets/hansards.yaml\n\n"
        "Jobs are exact. Hours and disk are estimates from measured rates of one core (config/rates.yaml). Text that\n"
        "is prepared is measured; other text has its declared size. docs/planning.md compares estimates and real runs."
    )


def run(args: argparse.Namespace) -> None:
    """Prints the plan and its cost; raises for a wrong configuration."""
    if args.gpu_tflops is not None and not args.gpu_tflops > 0:
        raise ConfigError(f"--gpu-tflops {args.gpu_tflops:g}: must be more than 0")
    project = Path.cwd()
    config = read_config([project / "config" / "config.yaml", *args.configfile])
    plan = Plan.of(load_settings(config, project), args.results)
    rates = Rates.load(project / "config")
    rates = rates if args.gpu_tflops is None else rates.with_gpu(args.gpu_tflops)
    sizes = sizes_of(plan)
    cost = estimate(plan, sizes, rates)
    grown = growth(plan, sizes, rates, cost)
    if args.json:
        costs = {**cost.as_json(), "gpu_tflops": rates.gpu_tflops(), "growth": [each.as_json() for each in grown]}
        print(json.dumps({**plan.summary(), "cost": costs}, indent=2))
        return
    _print_runs(plan.summary())
    _print_cost(cost, rates.gpu_tflops())
    _print_growth(grown)
    print("run it: snakemake --cores all" + "".join(f" --configfile {name}" for name in args.configfile[:1]))


def _print_runs(summary: Mapping[str, Any]) -> None:
    print(f"preset {summary['preset']}, results in {summary['results']}/")
    for dataset in summary["datasets"]:
        gold = "scored against gold links" if dataset["gold"] else "no gold links: aligned, not scored"
        print(f"  dataset {dataset['name']} ({'-'.join(dataset['pair'])}, {dataset['kind']}): {gold}")
    subwords = summary["subwords"]
    print(f"  subwords: {subwords['kind']} BPE, {subwords['vocab']:,} pieces")
    for model in summary["models"]:
        directions = "both directions" if model["directions"] == "both" else "forward only"
        seeds = _seeds(model["seeds"])
        print(f"  model {model['name']} ({model['preset']}): {model['architecture']}, {directions}, {seeds}")
    for aligner in summary["aligners"]:
        size = "all pairs" if aligner["size"] == "all" else f"first {int(aligner['size']):,} pairs"
        print(f"  aligner {aligner['name']}, {aligner['text']}, {size}, both directions")
    print(f"  symmetrised by {', '.join(summary['symmetrizations'])}")
    for asked in summary["attributions"]:
        jobs = len(asked["directions"]) * len(asked["seeds"]) * asked["shards"]
        print(
            f"  attribution of {asked['model']} on {asked['dataset']}, {_occasion(asked)}: "
            f"{len(asked['methods'])} methods in {jobs} job{'s' if jobs > 1 else ''}"
        )
    for folder in summary["encoders"]:
        print(f"  encoder {folder.removeprefix(summary['results'] + '/encoders/')}")
    for classifier in summary["classifiers"]:
        print(f"  classifier {classifier['name']} of {classifier['texts']}, {_seeds(classifier['seeds'])}")
    if toys := [toy["name"] for toy in summary["toys"]]:
        print(f"  generated tasks: {', '.join(toys)}")
    for study in summary["studies"]:
        print(f"  study {study}: {summary['results']}/{study}/")
    print(f"{len(summary['targets'])} final files, {len(summary['missing'])} of them still missing")


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def _occasion(asked: Mapping[str, Any]) -> str:
    """Returns what is run on a model; the default text and weights are left out."""
    split = "" if asked["split"] == TEST else f" of the {asked['split']} text"
    weights = "" if asked["weights"] == FINAL else f" after {asked['weights']} updates"
    return f"{asked['decoding']}{split}{weights}"


def _print_cost(cost: Estimate, tflops: float) -> None:
    print("what it costs, estimated:")
    rows = [(stage, *_row(total)) for stage, total in cost.stages().items()]
    _print_table([("stage", "jobs", "core hours", "or GPU hours", "disk"), *rows, ("total", *_row(cost.total()))])
    total = cost.total()
    if total.gpu_hours:
        print(
            f"  without GPUs {_hours(total.core_hours)} core hours; with training on GPUs "
            f"{_hours(cost.core_hours_beside_gpus())} core hours and {_hours(total.gpu_hours)} GPU hours "
            f"({tflops:g} TFLOPS assumed)"
        )
        print(f"  work folders of all trainings at once: {_size(cost.work_bytes())} more while they run")
    longest = cost.longest()
    hours = longest.core_seconds / longest.threads / 3600
    on_gpu = "" if longest.gpu_seconds is None else f", {_hours(longest.gpu_seconds / 3600)} on a GPU"
    print(f"  longest job: {longest.rule} {longest.name}, {_hours(hours)} hours{on_gpu}")
    for text in cost.assumed:
        print(f"  {text}")


def _print_growth(grown: Sequence[Growth]) -> None:
    print("how it grows, as a factor of the core hours, and the stages that change:")
    rows = [
        (each.change, f"{each.total:.2f}", ", ".join(f"{stage} {factor:.2f}" for stage, factor in each.stages.items()))
        for each in grown
    ]
    width = max(len(change) for change, _, _ in rows)
    for change, total, stages in rows:
        print(f"  {change:<{width}}  {total:>5}  {stages}".rstrip())


def _row(total: Total) -> tuple[str, str, str, str]:
    gpu = _hours(total.gpu_hours) if total.gpu_hours else ""
    return str(total.jobs), _hours(total.core_hours), gpu, _size(total.bytes)


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *numbers = (f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        print("  ".join((f"  {first.strip():<{widths[0]}}", *numbers)))


def _hours(hours: float) -> str:
    digits = 0 if hours >= 100 else 1 if hours >= 1 else 2
    return f"{hours:,.{digits}f}"


def _size(size: float) -> str:
    number, unit = (size / 1e9, "GB") if size >= 1e9 else (size / 1e6, "MB")
    return f"{number:,.{0 if number >= 10 else 1}f} {unit}"
