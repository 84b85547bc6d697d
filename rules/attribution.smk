# Attribution of trained models: scores of every source piece for every target piece, links read off them, both
# directions combined, and all of it scored.


rule attribute:
    input:
        model=f"{ROOT}/{paths.TRAINED}",
        masks=masks_of,
        source=attributed(0),
        target=attributed(1),
    output:
        directory(f"{ROOT}/{paths.ATTRIBUTED}"),
    log:
        f"{ROOT}/attributions/{ATTRIBUTION}/{{direction}}/attribute.log",
    benchmark:
        f"{ROOT}/benchmarks/attribute/{ATTRIBUTION}/{{direction}}.tsv"
    conda:
        "../envs/alignlens.yaml"
    threads: 1
    resources:
        mem_mb=grows(4000),
        runtime=grows(720),
    params:
        target=lambda wildcards, input: explained(input),
        weights=lambda wildcards: weights_of(wildcards),
        masks=lambda wildcards, input: option("--masks", input.masks or None),
        methods=lambda wildcards: methods_of(wildcards),
        adaptive=ADAPTIVE,
        batch_tokens=plan.settings.attribution.batch_tokens,
        shard=[],
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.attribute"),
    shell:
        "python -m alignlens attribute --model {input.model:q} {params.weights:q} {params.masks:q} --source {input.source:q}"
        " {params.target:q} --methods {params.methods:q} {params.adaptive:q} {params.shard:q} --batch-tokens {params.batch_tokens:q}"
        " --threads {threads} --out {output:q} --journal {output:q}.journal.jsonl --about {params.about:q} 2> {log:q}"


rule extract_links:
    input:
        matrices=f"{ROOT}/{paths.ATTRIBUTED}",
        source=attributed(0, paths.PIECES),
        target=attributed(1, paths.PIECES, paths.TRANSLATED_PIECES),
    output:
        directory(f"{ROOT}/{paths.METHOD_LINKS}"),
    log:
        f"{ROOT}/attributions/{ATTRIBUTION}/{{direction}}/extract.log",
    benchmark:
        f"{ROOT}/benchmarks/extract_links/{ATTRIBUTION}/{{direction}}.tsv"
    conda:
        "../envs/alignlens.yaml"
    resources:
        mem_mb=grows(2000),
        runtime=grows(60),
    params:
        extractions=plan.settings.attribution.extractions,
        transpose=lambda wildcards: ["--transpose"] if plan.attribution.is_turned(**wildcards) else [],
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.extract"),
    shell:
        "python -m alignlens extract --matrices {input.matrices:q} --source-pieces {input.source:q}"
        " --target-pieces {input.target:q} --extraction {params.extractions:q} {params.transpose:q}"
        " --out-dir {output:q} --journal {output:q}.journal.jsonl --about {params.about:q} 2> {log:q}"


rule symmetrize_methods:
    input:
        forward=lambda wildcards: attributed_links(wildcards, 0),
        backward=lambda wildcards: attributed_links(wildcards, 1),
    output:
        directory(at(paths.METHOD_LINKS, decoding=FORCED, direction="bidir")),
    log:
        f"{ROOT}/attributions/{{dataset}}/{{model}}/{{seed}}/{{weights}}/{{split}}/forced/bidir/symmetrize.log",
    benchmark:
        f"{ROOT}/benchmarks/symmetrize_methods/{{dataset}}/{{model}}/{{seed}}/{{weights}}/{{split}}.tsv"
    conda:
        "../envs/alignlens.yaml"
    resources:
        mem_mb=grows(2000),
        runtime=grows(60),
    params:
        methods=plan.settings.symmetrizations,
        about=lambda wildcards: about(wildcards, decoding="forced"),
        code=code_version("alignlens.cli.symmetrize"),
    shell:
        "python -m alignlens symmetrize --forward-dir {input.forward:q} --reverse-dir {input.backward:q}"
        " --method {params.methods:q} --out-dir {output:q} --journal {output:q}.journal.jsonl"
        " --about {params.about:q} 2> {log:q}"


rule score_methods:
    input:
        links=lambda wildcards: [cell.links for cell in attributed_cells(wildcards)],
        gold=lambda wildcards: [cell.gold for cell in attributed_cells(wildcards)],
        # Only known for the words of the reference, and only for generated text.
        causes=lambda wildcards: [
            plan.path(paths.TEXT, dataset=wildcards.dataset, split="test", side=name)
            for name in ("causes", "source")
            if (wildcards.decoding, wildcards.split) == (FORCED, "test")
            and plan.dataset(wildcards.dataset).kind == "synthetic"
        ],
    output:
        metrics=f"{ROOT}/{paths.METHOD_METRICS}",
        sentences=f"{ROOT}/{paths.METHOD_SENTENCES}",
    log:
        f"{ROOT}/attributions/{ATTRIBUTION}/score.log",
    benchmark:
        f"{ROOT}/benchmarks/score_methods/{ATTRIBUTION}.tsv"
    conda:
        "../envs/alignlens.yaml"
    resources:
        mem_mb=grows(2000),
        runtime=grows(60),
    params:
        cells=lambda wildcards: cells_of(wildcards),
        causes=lambda wildcards, input: causes_of(wildcards, input),
        shard=[],
        interval=INTERVAL,
        about=lambda wildcards: about_methods(wildcards),
        code=code_version("alignlens.cli.score_methods"),
    shell:
        "python -m alignlens score-methods --cell {params.cells:q} {params.causes:q} {params.shard:q}"
        " {params.interval:q} --out {output.metrics:q} --sentences {output.sentences:q}"
        " --journal {output.metrics:q}.journal.jsonl --about {params.about:q} 2> {log:q}"
