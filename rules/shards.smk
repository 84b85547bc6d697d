# The sentences of one attribution divided among several jobs (attribution.shards). Gathered, they are the same bytes
# as those of one job; so rules/attribution.smk and this file make the same files, and the configuration chooses.
SHARDS = range(1, plan.settings.attribution.shards + 1)


if len(SHARDS) > 1:

    ruleorder: gather_scores > attribute

else:

    ruleorder: attribute > gather_scores


use rule attribute as attribute_shard with:
    output:
        temp(directory(f"{ROOT}/attributions/{ATTRIBUTION}/{{direction}}/scores.shards/{{shard}}")),
    log:
        f"{ROOT}/attributions/{ATTRIBUTION}/{{direction}}/scores.shards/{{shard}}.log",
    benchmark:
        f"{ROOT}/benchmarks/attribute/{ATTRIBUTION}/{{direction}}/{{shard}}.tsv"
    wildcard_constraints:
        shard="[0-9]+",
    params:
        methods=lambda wildcards: methods_of(wildcards),
        adaptive=ADAPTIVE,
        batch_tokens=plan.settings.attribution.batch_tokens,
        shard=lambda wildcards: f"--shard {wildcards.shard}/{len(SHARDS)}",
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.attribute"),


rule gather_scores:
    input:
        expand(
            f"{ROOT}/attributions/{ATTRIBUTION}/{{direction}}/scores.shards/{{shard}}",
            shard=SHARDS,
            allow_missing=True,
        ),
    output:
        directory(f"{ROOT}/attributions/{ATTRIBUTION}/{{direction}}/scores"),
    log:
        f"{ROOT}/attributions/{ATTRIBUTION}/{{direction}}/gather.log",
    benchmark:
        f"{ROOT}/benchmarks/gather_scores/{ATTRIBUTION}/{{direction}}.tsv"
    conda:
        "../envs/alignlens.yaml"
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.io.matrices"),
    shell:
        "python -m alignlens attribute --gather {input} --out {output} --journal {output}.journal.jsonl"
        " --about {params.about:q} 2> {log}"
