# The attention of encoders: norms, weights and singular values over a text, for pretrained encoders and for
# our own Transformers.


ENCODERS = plan.requested.encoders()


if ENCODERS is not None:

    rule pretrained_encoder:
        input:
            text=ENCODERS.text or [],
        output:
            directory(f"{ROOT}/{paths.PRETRAINED_ENCODER}"),
        log:
            f"{ROOT}/encoders/{{encoder}}.log",
        benchmark:
            f"{ROOT}/benchmarks/encoders/{{encoder}}.tsv"
        wildcard_constraints:
            encoder="|".join(map(re.escape, ENCODERS.pretrained)) or "(?!)",
        conda:
            "../envs/alignlens.yaml"
        threads: 1
        resources:
            mem_mb=grows(4000),
            runtime=grows(120),
        params:
            encoder=lambda wildcards: option("--encoder", ENCODERS.pretrained[wildcards.encoder]),
            text=lambda wildcards, input: option("--text", input.text or None),
            sequences=ENCODERS.sequences,
            tokens=ENCODERS.tokens,
            about=lambda wildcards: about(wildcards),
            code=code_version("alignlens.cli.encoder"),
        shell:
            "python -m alignlens encoder {params.encoder:q} {params.text:q}"
            " --sequences {params.sequences:q} --tokens {params.tokens:q} --threads {threads} --out {output:q}"
            " --journal {output:q}.journal.jsonl --about {params.about:q} 2> {log:q} > /dev/null"

    rule model_encoder:
        input:
            model=f"{ROOT}/{paths.TRAINED}",
            source=tokens_of("test", 0),
            counts=tokens_of("train", 0),
        output:
            directory(f"{ROOT}/{paths.MODEL_ENCODER}"),
        log:
            f"{ROOT}/encoders/{MODEL}.log",
        benchmark:
            f"{ROOT}/benchmarks/encoders/{MODEL}.tsv"
        conda:
            "../envs/alignlens.yaml"
        threads: 1
        resources:
            mem_mb=grows(4000),
            runtime=grows(120),
        params:
            sequences=ENCODERS.sequences,
            about=lambda wildcards: about(wildcards),
            code=code_version("alignlens.cli.encoder"),
        shell:
            "python -m alignlens encoder --model {input.model:q} --source {input.source:q}"
            " --counts {input.counts:q} --sequences {params.sequences:q} --threads {threads} --out {output:q}"
            " --journal {output:q}.journal.jsonl --about {params.about:q} 2> {log:q} > /dev/null"
