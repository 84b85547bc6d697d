# Datasets: fetched or generated, verified, cleaned. Which files a dataset has depends on its kind.
PREPARED = [*expand(f"{ROOT}/data/{{{{dataset}}}}/{{split}}.{{side}}", split=SPLITS, side=SIDES)]
PREPARED += [f"{ROOT}/data/{{dataset}}/preparation.json"]
GOLD = [f"{ROOT}/data/{{dataset}}/test.gold"]
DEV_GOLD = [f"{ROOT}/data/{{dataset}}/dev.gold"]
CAUSES = [f"{ROOT}/data/{{dataset}}/{name}" for name in ("dev.causes", "test.causes")]


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
