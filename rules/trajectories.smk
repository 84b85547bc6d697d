# How models learn to attend: attention and saliency at all checkpoints, which words of a text occur together, and
# how far several training runs agree.


rule trajectory:
    input:
        model=f"{ROOT}/{paths.TRAINED}",
        source=lambda wildcards: given(paths.TOKENS, wildcards, wildcards.split, 0),
        target=lambda wildcards: given(paths.TOKENS, wildcards, wildcards.split, 1),
        reference=lambda wildcards: (
            given(paths.TEXT, wildcards, wildcards.split, 1) if question(wildcards).bleu else []
        ),
    output:
        directory(f"{ROOT}/{paths.TRAJECTORY}"),
    log:
        f"{ROOT}/trajectories/{MODEL}/{{split}}.log",
    benchmark:
        f"{ROOT}/benchmarks/trajectory/{MODEL}/{{split}}.tsv"
    conda:
        "../envs/alignlens.yaml"
    threads: 1
    resources:
        mem_mb=grows(4000),
        runtime=grows(720),
    params:
        methods=lambda wildcards: question(wildcards).methods,
        bleu=lambda wildcards, input: option("--bleu", input.reference or None),
        weights=lambda wildcards: option("--weights", None if question(wildcards).snapshots else paths.FINAL),
        work=lambda wildcards, output: f"{output[0]}.work",
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.trajectory"),
    shell:
        "python -m alignlens trajectory --model {input.model:q} --source {input.source:q} --target {input.target:q}"
        " --methods {params.methods:q} {params.bleu:q} {params.weights:q} --threads {threads} --work {params.work:q} --out {output:q}"
        " --journal {output:q}.journal.jsonl --about {params.about:q} > {log:q} 2>&1"


rule count_words:
    input:
        source=tokens_of("train", 0),
        target=tokens_of("train", 1),
        subwords=f"{ROOT}/{paths.SUBWORDS}",
    output:
        f"{ROOT}/{paths.COUNTS}",
    log:
        f"{ROOT}/counts/{{dataset}}/{{direction}}.log",
    benchmark:
        f"{ROOT}/benchmarks/count_words/{{dataset}}/{{direction}}.tsv"
    conda:
        "../envs/alignlens.yaml"
    resources:
        mem_mb=grows(4000),
        runtime=grows(60),
    params:
        source_subwords=lambda wildcards, input: f"{input.subwords}/{model_side(wildcards, 0)}.model",
        target_subwords=lambda wildcards, input: f"{input.subwords}/{model_side(wildcards, 1)}.model",
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.counts"),
    shell:
        "python -m alignlens counts --source {input.source:q} --target {input.target:q}"
        " --source-subwords {params.source_subwords:q} --target-subwords {params.target_subwords:q}"
        " --out {output:q} --journal {output:q}.journal.jsonl --about {params.about:q} > {log:q} 2>&1"


rule agreement:
    input:
        lambda wildcards: [folder for folders in compared(wildcards).values() for folder in folders],
    output:
        result=f"{ROOT}/{paths.AGREEMENT}",
        sentences=f"{ROOT}/{paths.AGREEMENT_SENTENCES}",
    log:
        f"{ROOT}/agreement/{{task}}/{{split}}/agreement.log",
    benchmark:
        f"{ROOT}/benchmarks/agreement/{{task}}/{{split}}.tsv"
    conda:
        "../envs/alignlens.yaml"
    resources:
        mem_mb=grows(4000),
        runtime=grows(120),
    params:
        # One option after the other, each with its folders.
        folders=lambda wildcards: [
            word for option, folders in compared(wildcards).items() for word in (f"--{option}", *folders)
        ],
        interval=INTERVAL,
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.agreement"),
    shell:
        "python -m alignlens agreement {params.folders:q} {params.interval:q} --out {output.result:q}"
        " --sentences {output.sentences:q} --journal {output.result:q}.journal.jsonl --about {params.about:q} > {log:q} 2>&1"
