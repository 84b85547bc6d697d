# Datasets: fetched or generated, verified, cleaned. Which files a dataset has depends on its kind.
PREPARED = [at(paths.TEXT, split=split, side=side) for split in SPLITS for side in SIDES] + [at(paths.PREPARED)]
GOLD, DEV_GOLD = ([at(paths.TEXT, split=split, side="gold")] for split in ("test", "dev"))
CAUSES = [at(paths.TEXT, split=split, side="causes") for split in ("dev", "test")]


rule prepare_text:
    output:
        PREPARED,
    log:
        f"{ROOT}/data/{{dataset}}/prepare.log",
    benchmark:
        f"{ROOT}/benchmarks/prepare/{{dataset}}.tsv"
    wildcard_constraints:
        dataset=plan.choice("text"),
    conda:
        "../envs/alignlens.yaml"
    resources:
        mem_mb=grows(4000),
        runtime=grows(60),
    params:
        definition=lambda wildcards: json.dumps(plan.definition(wildcards.dataset), sort_keys=True),
        settings=json.dumps(plan.preparation_settings(), sort_keys=True),
        preset=plan.settings.preset,
        folder=lambda wildcards, output: os.path.dirname(output[0]),
        code=code_version("alignlens.cli.data"),
    shell:
        "python -m alignlens data prepare {wildcards.dataset:q} --definition {params.definition:q}"
        " --settings {params.settings:q} --preset {params.preset:q} --out {params.folder:q}"
        " --journal {params.folder:q}/prepare.journal.jsonl 2> {log:q}"


use rule prepare_text as prepare_aligned_text with:
    output:
        PREPARED + GOLD,
    wildcard_constraints:
        dataset=plan.choice("gold"),


use rule prepare_text as prepare_text_aligned_twice with:
    output:
        PREPARED + GOLD + DEV_GOLD,
    wildcard_constraints:
        dataset=plan.choice("dev_gold"),


use rule prepare_text as generate_synthetic_text with:
    output:
        PREPARED + GOLD + DEV_GOLD + CAUSES,
    wildcard_constraints:
        dataset=plan.choice("synthetic"),
