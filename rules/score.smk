# Links against gold links: AER, precision, recall, F1, with intervals.


rule score:
    input:
        gold=at(paths.TEXT, split="test", side="gold"),
        text=list(text_of("test").values()),
        links=lambda wildcards: [
            at(paths.ALIGNER_LINKS, links=links, **wildcards) for links in plan.links_of(wildcards.dataset)
        ],
        models=lambda wildcards: [
            at(paths.ALIGNER_MODEL, direction=direction, **wildcards)
            for direction in plan.directions(wildcards.dataset)
        ],
    output:
        metrics=f"{ROOT}/{paths.ALIGNER_METRICS}",
        sentences=f"{ROOT}/{paths.ALIGNER_SENTENCES}",
    log:
        f"{ROOT}/scores/{RUN}/score.log",
    benchmark:
        f"{ROOT}/benchmarks/score/{RUN}.tsv"
    conda:
        "../envs/alignlens.yaml"
    resources:
        mem_mb=grows(2000),
        runtime=grows(30),
    params:
        interval=INTERVAL,
        about=lambda wildcards: about(
            wildcards,
            pair=plan.dataset(wildcards.dataset).pair,
            directions=plan.directions(wildcards.dataset),
        ),
        code=code_version("alignlens.cli.score"),
    shell:
        "python -m alignlens score --gold {input.gold:q} --base 0 --source {input.text[0]:q}"
        " --target {input.text[1]:q}"
        " --links {input.links:q} --trained-as {input.models[0]:q} {params.interval:q} --out {output.metrics:q}"
        " --sentences {output.sentences:q} --journal {output.metrics:q}.journal.jsonl"
        " --about {params.about:q} 2> {log:q}"
