# The sentences of one attribution, and the links files that one table scores, divided among several jobs
# (attribution.shards). Gathered, they are the same bytes as those of one job; so rules/attribution.smk and this file make
# the same files, and the configuration chooses.
SHARDS = range(1, plan.settings.attribution.shards + 1)


if len(SHARDS) > 1:

    ruleorder: gather_matrices > attribute
    ruleorder: gather_metrics > score_methods

else:

    ruleorder: attribute > gather_matrices
    ruleorder: score_methods > gather_metrics


use rule attribute as attribute_shard with:
    output:
        temp(directory(f"{ROOT}/attributions/{ATTRIBUTION}/{{direction}}/matrices.shards/{{shard}}")),
    log:
        f"{ROOT}/attributions/{ATTRIBUTION}/{{direction}}/matrices.shards/{{shard}}.log",
    benchmark:
        f"{ROOT}/benchmarks/attribute/{ATTRIBUTION}/{{direction}}/{{shard}}.tsv"
    wildcard_constraints:
        shard="[0-9]+",
    params:
        target=lambda wildcards, input: explained(input),
        weights=lambda wildcards: weights_of(wildcards),
        masks=lambda wildcards, input: option("--masks", input.masks or None),
        methods=lambda wildcards: methods_of(wildcards),
        adaptive=ADAPTIVE,
        batch_tokens=plan.settings.attribution.batch_tokens,
        shard=lambda wildcards: option("--shard", f"{wildcards.shard}/{len(SHARDS)}"),
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.attribute"),


rule gather_matrices:
    input:
        expand(
            f"{ROOT}/attributions/{ATTRIBUTION}/{{direction}}/matrices.shards/{{shard}}",
            shard=SHARDS,
            allow_missing=True,
        ),
    output:
        directory(f"{ROOT}/{paths.ATTRIBUTED}"),
    log:
        f"{ROOT}/attributions/{ATTRIBUTION}/{{direction}}/gather.log",
    benchmark:
        f"{ROOT}/benchmarks/gather_matrices/{ATTRIBUTION}/{{direction}}.tsv"
    conda:
        "../envs/alignlens.yaml"
    resources:
        mem_mb=grows(2000),
        runtime=grows(60),
    params:
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.io.matrices"),
    shell:
        "python -m alignlens attribute --gather {input:q} --out {output:q} --journal {output:q}.journal.jsonl"
        " --about {params.about:q} 2> {log:q}"


use rule score_methods as score_methods_shard with:
    output:
        metrics=temp(f"{ROOT}/attributions/{ATTRIBUTION}/metrics.shards/{{shard}}.json"),
        sentences=temp(f"{ROOT}/attributions/{ATTRIBUTION}/metrics.shards/{{shard}}.npz"),
    log:
        f"{ROOT}/attributions/{ATTRIBUTION}/metrics.shards/{{shard}}.log",
    benchmark:
        f"{ROOT}/benchmarks/score_methods/{ATTRIBUTION}/{{shard}}.tsv"
    wildcard_constraints:
        shard="[0-9]+",
    params:
        cells=lambda wildcards: cells_of(wildcards),
        causes=lambda wildcards, input: causes_of(wildcards, input),
        shard=lambda wildcards: option("--shard", f"{wildcards.shard}/{len(SHARDS)}"),
        interval=INTERVAL,
        about=lambda wildcards: about_methods(wildcards),
        code=code_version("alignlens.cli.score_methods"),


rule gather_metrics:
    input:
        metrics=expand(
            f"{ROOT}/attributions/{ATTRIBUTION}/metrics.shards/{{shard}}.json",
            shard=SHARDS,
            allow_missing=True,
        ),
        sentences=expand(
            f"{ROOT}/attributions/{ATTRIBUTION}/metrics.shards/{{shard}}.npz",
            shard=SHARDS,
            allow_missing=True,
        ),
    output:
        metrics=f"{ROOT}/{paths.METHOD_METRICS}",
        sentences=f"{ROOT}/{paths.METHOD_SENTENCES}",
    log:
        f"{ROOT}/attributions/{ATTRIBUTION}/gather.log",
    benchmark:
        f"{ROOT}/benchmarks/gather_metrics/{ATTRIBUTION}.tsv"
    conda:
        "../envs/alignlens.yaml"
    resources:
        mem_mb=grows(2000),
        runtime=grows(30),
    params:
        about=lambda wildcards: about_methods(wildcards),
        code=code_version("alignlens.cli.score_methods"),
    shell:
        "python -m alignlens score-methods --gather {input.metrics:q} --gather-sentences {input.sentences:q}"
        " --out {output.metrics:q} --sentences {output.sentences:q} --journal {output.metrics:q}.journal.jsonl"
        " --about {params.about:q} 2> {log:q}"
