"""``alignlens plan``: what a configuration would run, before it runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from alignlens.plan import Plan
from alignlens.settings import load_settings, read_config

if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument(
        "--configfile", nargs="+", default=[], metavar="FILE", help="laid over config/config.yaml, as for snakemake"
    )
    parser.add_argument("--results", default="results", help="results folder (default: results)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.epilog = "example:\n  alignlens plan --configfile config/presets/hansards.yaml"


def run(args: argparse.Namespace) -> None:
    """Prints the plan; a wrong configuration is an error."""
    project = Path.cwd()
    config = read_config([project / "config" / "config.yaml", *args.configfile])
    summary = Plan.of(load_settings(config, project), args.results).summary()
    if args.json:
        print(json.dumps(summary, indent=2))
        return
    print(f"preset {summary['preset']}, results in {summary['results']}/")
    for dataset in summary["datasets"]:
        gold = "scored against gold links" if dataset["gold"] else "no gold links: aligned, not scored"
        print(f"  dataset {dataset['name']} ({'-'.join(dataset['pair'])}, {dataset['kind']}): {gold}")
    subwords = summary["subwords"]
    print(f"  subwords: {subwords['kind']} BPE, {subwords['vocab']:,} pieces")
    for model in summary["models"]:
        directions = "both directions" if model["directions"] == "both" else "forward only"
        seeds = f"seed{'s' if len(model['seeds']) > 1 else ''} {', '.join(map(str, model['seeds']))}"
        print(f"  model {model['name']} ({model['preset']}): {model['architecture']}, {directions}, {seeds}")
    for aligner in summary["aligners"]:
        size = "all pairs" if aligner["size"] == "all" else f"first {int(aligner['size']):,} pairs"
        print(f"  aligner {aligner['name']}, {aligner['text']}, {size}, both directions")
    print(f"  symmetrised by {', '.join(summary['symmetrizations'])}")
    for asked in summary["attributions"]:
        jobs = len(asked["directions"]) * len(asked["seeds"]) * asked["shards"]
        print(
            f"  attribution of {asked['model']} on {asked['dataset']}, {asked['decoding']}: "
            f"{len(asked['methods'])} methods in {jobs} job{'s' if jobs > 1 else ''}"
        )
    for folder in summary["encoders"]:
        print(f"  encoder {folder.removeprefix(summary['results'] + '/encoders/')}")
    for study in summary["studies"]:
        print(f"  study {study}: {summary['results']}/{study}/")
    print(f"{len(summary['targets'])} final files, {len(summary['missing'])} of them still to be made")
    print("run it: snakemake --cores all" + "".join(f" --configfile {name}" for name in args.configfile[:1]))
