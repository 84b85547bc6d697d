# alignlens: from parallel text to scored, tracked word alignments.
#
#   snakemake --cores all                                              the embedded demo
#   snakemake --cores all --configfile config/presets/hansards.yaml    real data
#   snakemake --cores all NAME                                         one study of the configuration, and what it needs
#   snakemake --workflow-profile profiles/slurm                        everything as Slurm jobs (docs/cluster.md)
#
# Paths below results/<preset>/ (made by alignlens.workflow.plan, the only place that knows them):
#   data/{dataset}/{split}.{side}                                   prepared text and gold links
#   subwords/{dataset}/  pieces/{dataset}/{split}.{side}            BPE models, segmented text
#   tokens/{dataset}/{split}.{side}/                                the same as numbers: what models read
#   models/{dataset}/{direction}/{model}/{seed}/model/              trained translation models
#   translations/{dataset}/{direction}/{model}/{seed}/test.txt      with bleu.json; test.pieces and test.tokens/ as they
#                                                                   were generated; forced.json scores the reference
#   aligners/{dataset}/{aligner}/{text}/{size}/{direction}/model/   stored aligners
#   links/{dataset}/{aligner}/{text}/{size}/{links}.pharaoh         a direction or a symmetrisation
#   scores/{dataset}/{aligner}/{text}/{size}/metrics.json           with sentences.npz: counts of every sentence
#   attributions/{dataset}/{model}/{seed}/{decoding}/{direction}/   scores/ and links/ of every method; decoding is
#                                                                   forced or free, direction also bidir
#   attributions/{dataset}/{model}/{seed}/forced/{direction}/       with cost.json: what methods cost by themselves
#   attributions/{dataset}/{model}/{seed}/{decoding}/metrics.json   their AER and entropy; sentences.npz
#   free/{dataset}/{direction}/{model}/{seed}/                      what free decoding is scored against
#   encoders/{encoder}/                                             statistics of pretrained encoders; those of ours are
#                                                                   in encoders/{dataset}/{direction}/{model}/{seed}/
#   {study}/                                                        a study: its tables, figures, claims.csv
#   report.html, report/                                            the page; its tables and figures
from snakemake.utils import min_version

min_version("9.10")


configfile: "config/config.yaml"


report: "report/workflow.rst"


include: "rules/common.smk"
include: "rules/data.smk"
include: "rules/subwords.smk"
include: "rules/train.smk"
include: "rules/translate.smk"
include: "rules/aligners.smk"
include: "rules/score.smk"
include: "rules/free.smk"
include: "rules/attribution.smk"
include: "rules/shards.smk"
include: "rules/cost.smk"
include: "rules/encoders.smk"
include: "rules/studies.smk"
include: "rules/report.smk"


localrules:
    all,
    prefetch,


rule all:
    default_target: True
    input:
        plan.targets(),


# On a machine with a network, before jobs run on nodes that have none.
rule prefetch:
    input:
        plan.prepared(),


# Not in a dry run: jobs of a killed workflow may be let go on as long as nothing replaces them.
onstart:
    with exit_on_error("cluster"):
        orphans = cancel_orphans(Path.cwd()) if ALONE else []
    if orphans:
        print(f"alignlens: {told(orphans)}", file=sys.stderr)


# Journals are complete by now; this fills MLflow from them, and never fails a run.
onsuccess:
    shell("python -m alignlens track sync --results results --preset {plan.settings.preset:q}")


onerror:
    shell("python -m alignlens track sync --results results --preset {plan.settings.preset:q}")
