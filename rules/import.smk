# Models from elsewhere: each becomes a model folder like those that are trained, for all later steps. Their
# subwords are their own, so their input is segmented once more, beside them.


rule import_model:
    input:
        lambda wildcards: plan.foreign.folder(**wildcards),
    output:
        directory(f"{ROOT}/{paths.TRAINED}"),
    log:
        f"{ROOT}/models/{MODEL}/import.log",
    benchmark:
        f"{ROOT}/benchmarks/import_model/{MODEL}.tsv"
    wildcard_constraints:
        model=FOREIGN,
    conda:
        "../envs/alignlens.yaml"
    threads: 1
    resources:
        mem_mb=grows(4000),
        runtime=grows(30),
    params:
        model=lambda wildcards: plan.foreign.name(**wildcards),
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.model"),
    shell:
        "python -m alignlens model import --model {params.model:q} --out {output:q} --journal {output:q}.journal.jsonl"
        " --about {params.about:q} 2> {log:q}"


use rule segment as segment_for_model with:
    input:
        models=f"{ROOT}/{paths.TRAINED}",
        text=f"{ROOT}/{paths.TEXT}",
    output:
        pieces=f"{ROOT}/{paths.OWN_PIECES}",
        tokens=directory(f"{ROOT}/{paths.OWN_TOKENS}"),
    log:
        f"{ROOT}/models/{MODEL}/pieces/{{split}}.{{side}}.log",
    benchmark:
        f"{ROOT}/benchmarks/segment/{MODEL}/{{split}}.{{side}}.tsv"
    wildcard_constraints:
        model=FOREIGN,
    params:
        subwords=lambda wildcards, input: f"{input.models}/{model_side(wildcards, SIDES.index(wildcards.side))}.model",
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.subwords"),
