# Word aligners: trained per direction, stored, the stored model applied to the test text; then both directions combined.


rule align:
    input:
        **text_of("train"),
        test=list(text_of("test").values()),
        parent=lambda wildcards: plan.parent_model(**wildcards),
    output:
        model=directory(f"{ROOT}/{paths.ALIGNER_MODEL}"),
        links=at(paths.ALIGNER_LINKS, links="{direction}"),
    log:
        f"{ROOT}/aligners/{RUN}/{{direction}}/align.log",
    benchmark:
        f"{ROOT}/benchmarks/align/{RUN}/{{direction}}.tsv"
    conda:
        "../envs/alignlens.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: int(attempt * (2000 + 60 * input.size_mb)),
        runtime=grows(240),
    params:
        parent=lambda wildcards, input: option("--parent", input.parent or None),
        pairs=lambda wildcards: option("--max-pairs", None if wildcards.size == "all" else wildcards.size),
        side=lambda wildcards: ["--reverse"] if plan.is_reverse(wildcards.dataset, wildcards.direction) else [],
        seed=plan.settings.seed,
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.aligner"),
    shell:
        "python -m alignlens aligner {wildcards.aligner:q} --text {wildcards.text:q}"
        " --train-source {input.source:q} --train-target {input.target:q}"
        " --source {input.test[0]:q} --target {input.test[1]:q}"
        " {params.parent:q} {params.pairs:q} {params.side:q} --seed {params.seed:q} --model {output.model:q}"
        " --out {output.links:q} --journal {output.links:q}.journal.jsonl --about {params.about:q} 2> {log:q}"


rule symmetrize:
    input:
        forward=links_of(0),
        backward=links_of(1),
    output:
        expand(f"{ROOT}/{paths.ALIGNER_LINKS}", links=plan.settings.symmetrizations, allow_missing=True),
    log:
        f"{ROOT}/links/{RUN}/symmetrize.log",
    benchmark:
        f"{ROOT}/benchmarks/symmetrize/{RUN}.tsv"
    conda:
        "../envs/alignlens.yaml"
    resources:
        mem_mb=grows(2000),
        runtime=grows(30),
    params:
        methods=plan.settings.symmetrizations,
        folder=lambda wildcards, output: os.path.dirname(output[0]),
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.symmetrize"),
    shell:
        "python -m alignlens symmetrize --forward {input.forward:q} --reverse {input.backward:q}"
        " --method {params.methods:q} --out-dir {params.folder:q}"
        " --journal {params.folder:q}/symmetrize.journal.jsonl --about {params.about:q} 2> {log:q}"
