# Reference links for a model's own translation, from the online aligner: the intersection is sure, the rest of the union
# possible. All in the model's orientation: what it read comes first.


rule free_links:
    input:
        aligner=lambda wildcards: plan.attribution.aligner(wildcards.dataset, wildcards.direction, 0),
        source=side_of("test", 0),
        target=f"{ROOT}/{paths.TRANSLATION}",
    output:
        f"{ROOT}/free/{MODEL}/forward.pharaoh",
    log:
        f"{ROOT}/free/{MODEL}/forward.log",
    benchmark:
        f"{ROOT}/benchmarks/free_links/{MODEL}/forward.tsv"
    conda:
        "../envs/alignlens.yaml"
    threads: 1
    resources:
        mem_mb=grows(4000),
        runtime=grows(60),
    params:
        side=[],
        about=lambda wildcards: about(wildcards, links="forward"),
        code=code_version("alignlens.cli.aligner"),
    shell:
        "python -m alignlens aligner fast_align --text online --model {input.aligner:q} --source {input.source:q}"
        " --target {input.target:q} {params.side:q} --out {output:q} --journal {output:q}.journal.jsonl"
        " --about {params.about:q} 2> {log:q}"


use rule free_links as free_links_reverse with:
    input:
        aligner=lambda wildcards: plan.attribution.aligner(wildcards.dataset, wildcards.direction, 1),
        source=side_of("test", 0),
        target=f"{ROOT}/{paths.TRANSLATION}",
    output:
        f"{ROOT}/free/{MODEL}/reverse.pharaoh",
    log:
        f"{ROOT}/free/{MODEL}/reverse.log",
    benchmark:
        f"{ROOT}/benchmarks/free_links/{MODEL}/reverse.tsv"
    params:
        side=["--reverse"],
        about=lambda wildcards: about(wildcards, links="reverse"),
        code=code_version("alignlens.cli.aligner"),


rule free_reference:
    input:
        forward=f"{ROOT}/free/{MODEL}/forward.pharaoh",
        backward=f"{ROOT}/free/{MODEL}/reverse.pharaoh",
    output:
        f"{ROOT}/{paths.FREE_GOLD}",
    log:
        f"{ROOT}/free/{MODEL}/reference.log",
    benchmark:
        f"{ROOT}/benchmarks/free_reference/{MODEL}.tsv"
    conda:
        "../envs/alignlens.yaml"
    resources:
        mem_mb=grows(2000),
        runtime=grows(30),
    params:
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.reference"),
    shell:
        "python -m alignlens reference --forward {input.forward:q} --reverse {input.backward:q} --out {output:q}"
        " --journal {output:q}.journal.jsonl --about {params.about:q} 2> {log:q}"
