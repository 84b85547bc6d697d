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


use rule prepare_text as prepare_text_with_dev_gold with:
    output:
        PREPARED + GOLD + DEV_GOLD,
    wildcard_constraints:
        dataset=plan.choice("dev_gold"),


use rule prepare_text as generate_synthetic_text with:
    output:
        PREPARED + GOLD + DEV_GOLD + CAUSES,
    wildcard_constraints:
        dataset=plan.choice("synthetic"),


# Pairs of a text that a study requests: of one length, some at random, or with partners exchanged.
rule select_text:
    input:
        source=lambda wildcards: chosen_from(paths.TEXT, wildcards, "source"),
        target=lambda wildcards: chosen_from(paths.TEXT, wildcards, "target"),
        source_pieces=lambda wildcards: chosen_from(paths.PIECES, wildcards, "source"),
        target_pieces=lambda wildcards: chosen_from(paths.PIECES, wildcards, "target"),
    output:
        source=at(paths.TEXT, split="{selection}", side="source"),
        target=at(paths.TEXT, split="{selection}", side="target"),
    log:
        f"{ROOT}/data/{{dataset}}/{{selection}}.log",
    benchmark:
        f"{ROOT}/benchmarks/select_text/{{dataset}}/{{selection}}.tsv"
    wildcard_constraints:
        selection="|".join(map(re.escape, plan.requested.texts)) or "(?!)",
    conda:
        "../envs/alignlens.yaml"
    resources:
        mem_mb=grows(2000),
        runtime=grows(30),
    params:
        choice=lambda wildcards: plan.requested.texts[wildcards.selection].options(),
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.select"),
    shell:
        "python -m alignlens select --source {input.source:q} --target {input.target:q}"
        " --source-pieces {input.source_pieces:q} --target-pieces {input.target_pieces:q} {params.choice:q}"
        " --out-source {output.source:q} --out-target {output.target:q} --journal {output.source:q}.journal.jsonl"
        " --about {params.about:q} 2> {log:q}"
