# SentencePiece BPE, trained on the training text, and every split segmented with it.


rule train_subwords:
    input:
        **text_of("train"),
    output:
        directory(f"{ROOT}/{paths.SUBWORDS}"),
    log:
        f"{ROOT}/subwords/{{dataset}}.log",
    benchmark:
        f"{ROOT}/benchmarks/train_subwords/{{dataset}}.tsv"
    conda:
        "../envs/alignlens.yaml"
    resources:
        mem_mb=grows(4000),
        runtime=grows(60),
    params:
        kind=plan.settings.subwords.kind,
        vocab=plan.settings.subwords.vocab,
        prefix=[] if plan.settings.subwords.dummy_prefix else ["--no-dummy-prefix"],
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.subwords"),
    shell:
        "python -m alignlens subwords train --source {input.source:q} --target {input.target:q} --kind {params.kind:q}"
        " --vocab {params.vocab:q} {params.prefix:q} --out {output:q} --journal {output:q}.journal.jsonl"
        " --about {params.about:q} 2> {log:q}"


rule segment:
    input:
        models=f"{ROOT}/{paths.SUBWORDS}",
        text=f"{ROOT}/{paths.TEXT}",
    output:
        pieces=f"{ROOT}/{paths.PIECES}",
        tokens=directory(f"{ROOT}/{paths.TOKENS}"),
    log:
        f"{ROOT}/pieces/{{dataset}}/{{split}}.{{side}}.log",
    benchmark:
        f"{ROOT}/benchmarks/segment/{{dataset}}/{{split}}.{{side}}.tsv"
    conda:
        "../envs/alignlens.yaml"
    resources:
        mem_mb=grows(2000),
        runtime=grows(30),
    params:
        subwords=lambda wildcards, input: f"{input.models}/{wildcards.side}.model",
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.subwords"),
    shell:
        "python -m alignlens subwords segment --model {params.subwords:q} --input {input.text:q}"
        " --out {output.pieces:q} --tokens {output.tokens:q} --journal {output.pieces:q}.journal.jsonl"
        " --about {params.about:q} 2> {log:q}"
