# The test text through every trained model: translated by beam search and scored, and its reference force-decoded. The
# pieces of a translation are kept as generated, for attribution.


rule translate:
    input:
        model=f"{ROOT}/{paths.TRAINED}",
        source=tokens_of("test", 0),
    output:
        text=f"{ROOT}/{paths.TRANSLATION}",
        pieces=f"{ROOT}/{paths.TRANSLATED_PIECES}",
        tokens=directory(f"{ROOT}/{paths.TRANSLATED_TOKENS}"),
    log:
        f"{ROOT}/translations/{MODEL}/translate.log",
    benchmark:
        f"{ROOT}/benchmarks/translate/{MODEL}.tsv"
    conda:
        "../envs/alignlens.yaml"
    threads: 1
    resources:
        mem_mb=grows(4000),
        runtime=grows(120),
    params:
        beam=plan.settings.decoding.beam,
        length_penalty=plan.settings.decoding.length_penalty,
        max_ratio=plan.settings.decoding.max_ratio,
        max_offset=plan.settings.decoding.max_offset,
        batch_tokens=plan.settings.decoding.batch_tokens,
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.translate"),
    shell:
        "python -m alignlens translate --model {input.model:q} --source {input.source:q} --out {output.text:q}"
        " --pieces {output.pieces:q} --tokens {output.tokens:q}"
        " --beam {params.beam:q} --length-penalty {params.length_penalty:q} --max-ratio {params.max_ratio:q}"
        " --max-offset {params.max_offset:q} --batch-tokens {params.batch_tokens:q} --threads {threads}"
        " --journal {output.text:q}.journal.jsonl --about {params.about:q} 2> {log:q}"


rule force_decode:
    input:
        model=f"{ROOT}/{paths.TRAINED}",
        source=tokens_of("test", 0),
        target=tokens_of("test", 1),
    output:
        scores=f"{ROOT}/{paths.FORCED_SCORES}",
        sentences=f"{ROOT}/translations/{MODEL}/forced.tsv",
    log:
        f"{ROOT}/translations/{MODEL}/force.log",
    benchmark:
        f"{ROOT}/benchmarks/force_decode/{MODEL}.tsv"
    conda:
        "../envs/alignlens.yaml"
    threads: 1
    resources:
        mem_mb=grows(4000),
        runtime=grows(60),
    params:
        batch_tokens=plan.settings.decoding.batch_tokens,
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.force"),
    shell:
        "python -m alignlens force --model {input.model:q} --source {input.source:q} --target {input.target:q}"
        " --out {output.scores:q} --per-sentence {output.sentences:q} --batch-tokens {params.batch_tokens:q}"
        " --threads {threads} --journal {output.scores:q}.journal.jsonl --about {params.about:q} 2> {log:q}"


rule score_bleu:
    input:
        hypothesis=f"{ROOT}/{paths.TRANSLATION}",
        reference=side_of("test", 1),
    output:
        f"{ROOT}/{paths.BLEU}",
    log:
        f"{ROOT}/translations/{MODEL}/bleu.log",
    benchmark:
        f"{ROOT}/benchmarks/score_bleu/{MODEL}.tsv"
    conda:
        "../envs/alignlens.yaml"
    resources:
        mem_mb=grows(2000),
        runtime=grows(30),
    params:
        # Prepared text is tokenised on both sides of the comparison (docs/data.md). "none" counts its words as they
        # are; "13a" would tokenise a second time. The signature says which was used.
        tokenize=plan.settings.decoding.bleu_tokenize,
        interval=INTERVAL,
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.bleu"),
    shell:
        "python -m alignlens bleu --hypothesis {input.hypothesis:q} --reference {input.reference:q}"
        " --tokenize {params.tokenize:q} {params.interval:q} --out {output:q} --journal {output:q}.journal.jsonl"
        " --about {params.about:q} 2> {log:q}"
