# The cost of every compared method on its own. A whole attribution cannot show it, since its methods share passes.


rule measure_cost:
    input:
        model=f"{ROOT}/{paths.TRAINED}",
        masks=lambda wildcards: plan.attribution.compared_masks(**wildcards),
        source=tokens_of("test", 0),
        target=tokens_of("test", 1),
    output:
        at(paths.METHOD_COST, weights=FINAL, split="test", decoding=FORCED),
    log:
        f"{ROOT}/attributions/{{dataset}}/{{model}}/{{seed}}/final/test/forced/{{direction}}/cost.log",
    benchmark:
        f"{ROOT}/benchmarks/measure_cost/{{dataset}}/{{model}}/{{seed}}/{{direction}}.tsv"
    conda:
        "../envs/alignlens.yaml"
    threads: 1
    resources:
        mem_mb=grows(4000),
        runtime=grows(60),
    params:
        masks=lambda wildcards, input: option("--masks", input.masks or None),
        methods=lambda wildcards: plan.attribution.compared(wildcards.dataset, wildcards.model),
        adaptive=ADAPTIVE,
        sentences=plan.settings.attribution.cost_sentences,
        batch_tokens=plan.settings.attribution.batch_tokens,
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.cost"),
    shell:
        "python -m alignlens cost --model {input.model:q} {params.masks:q} --source {input.source:q} --target {input.target:q}"
        " --methods {params.methods:q} {params.adaptive:q} --sentences {params.sentences:q}"
        " --batch-tokens {params.batch_tokens:q} --threads {threads} --out {output:q}"
        " --journal {output:q}.journal.jsonl --about {params.about:q} 2> {log:q}"
