# alignlens: from parallel text to scored, tracked word alignments.
#
#   snakemake --cores all                                              the embedded demo
#   snakemake --cores all --configfile config/presets/hansards.yaml    real data
#   snakemake --cores all NAME                                         one study of the configuration, and what it needs
#   snakemake --workflow-profile profiles/slurm                        everything as Slurm jobs (docs/cluster.md)
#
# All paths below results/<preset>/ are in src/alignlens/results/paths.py, which rules, plan, studies and report
# share.
from snakemake.utils import min_version

min_version("9.10")


configfile: "config/config.yaml"


report: "report/workflow.rst"


include: "rules/common.smk"
include: "rules/data.smk"
include: "rules/subwords.smk"
include: "rules/train.smk"
include: "rules/import.smk"
include: "rules/translate.smk"
include: "rules/aligners.smk"
include: "rules/score.smk"
include: "rules/free.smk"
include: "rules/attribution.smk"
include: "rules/shards.smk"
include: "rules/cost.smk"
include: "rules/encoders.smk"
include: "rules/trajectories.smk"
include: "rules/classification.smk"
include: "rules/calibration.smk"
include: "rules/toys.smk"
include: "rules/studies.smk"
include: "rules/report.smk"


localrules:
    all,
    prefetch,


rule all:
    default_target: True
    input:
        plan.targets(),


# To run on a machine with a network, before jobs run on nodes without one.
rule prefetch:
    input:
        plan.prepared(),


# Not in a dry run: jobs of a killed workflow may keep running as long as nothing replaces them.
onstart:
    with exit_on_error("cluster"):
        orphans = cancel_orphans(Path.cwd()) if ALONE else []
    if orphans:
        print(f"alignlens: {summary(orphans)}", file=sys.stderr)


# The journals are complete now; this fills MLflow from them, and never makes a run fail.
onsuccess:
    shell("python -m alignlens track sync --results results --preset {plan.settings.preset:q}")


onerror:
    shell("python -m alignlens track sync --results results --preset {plan.settings.preset:q}")
