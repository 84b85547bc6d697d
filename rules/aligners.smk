# Word aligners: trained per direction, stored, the stored model applied to the test text; then both directions combined.


rule align:
    input:
        **text_of("train"),
        test=list(text_of("test").values()),
        parent=lambda wildcards: plan.parent_model(**wildcards),
    output:
        model=directory(f"{ROOT}/aligners/{RUN}/{{direction}}/model"),
        links=f"{ROOT}/links/{RUN}/{{direction}}.pharaoh",
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
        parent=lambda wildcards, input: f"--parent {input.parent}" if input.parent else "",
        pairs=lambda wildcards: "" if wildcards.size == "all" else f"--max-pairs {wildcards.size}",
        side=lambda wildcards: "--reverse" if plan.is_reverse(wildcards.dataset, wildcards.direction) else "",
        seed=plan.settings.seed,
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.aligner"),
    shell:
        "python -m alignlens aligner {wildcards.aligner} --text {wildcards.text}"
        " --train-source {input.source} --train-target {input.target} --source {input.test[0]} --target {input.test[1]}"
        " {params.parent} {params.pairs} {params.side} --seed {params.seed} --model {output.model}"
        " --out {output.links} --journal {output.links}.journal.jsonl --about {params.about:q} 2> {log}"


rule symmetrize:
    input:
        forward=links_of(0),
        backward=links_of(1),
    output:
        expand(f"{ROOT}/links/{RUN}/{{links}}.pharaoh", links=plan.settings.symmetrizations, allow_missing=True),
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
        "python -m alignlens symmetrize --forward {input.forward} --reverse {input.backward} --method {params.methods}"
        " --out-dir {params.folder} --journal {params.folder}/symmetrize.journal.jsonl --about {params.about:q} 2> {log}"
