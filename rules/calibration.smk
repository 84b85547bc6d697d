# What calibration does to attention and whether masks point at what matters; and how models translate against a baseline.


rule calibration:
    input:
        model=f"{ROOT}/{paths.TRAINED}",
        source=lambda wildcards: given(paths.TOKENS, wildcards, wildcards.split, 0),
        target=lambda wildcards: given(paths.TOKENS, wildcards, wildcards.split, 1),
    output:
        result=f"{ROOT}/{paths.CALIBRATION}",
        sentences=f"{ROOT}/{paths.CALIBRATION_SENTENCES}",
    log:
        f"{ROOT}/calibration/{MODEL}/{{split}}.log",
    benchmark:
        f"{ROOT}/benchmarks/calibration/{MODEL}/{{split}}.tsv"
    conda:
        "../envs/alignlens.yaml"
    threads: 1
    resources:
        mem_mb=grows(4000),
        runtime=grows(240),
    params:
        interval=INTERVAL,
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.calibration"),
    shell:
        "python -m alignlens calibration --model {input.model:q} --source {input.source:q} --target {input.target:q}"
        " {params.interval:q} --threads {threads} --out {output.result:q} --sentences {output.sentences:q}"
        " --journal {output.result:q}.journal.jsonl --about {params.about:q} > {log:q} 2>&1"


rule compare_bleu:
    input:
        hypotheses=lambda wildcards: [file for files in systems(wildcards).values() for file in files],
        reference=side_of("test", 1),
    output:
        f"{ROOT}/{paths.COMPARISON}",
    log:
        f"{ROOT}/comparisons/{{dataset}}/{{direction}}/{{comparison}}.log",
    benchmark:
        f"{ROOT}/benchmarks/compare_bleu/{{dataset}}/{{direction}}/{{comparison}}.tsv"
    conda:
        "../envs/alignlens.yaml"
    resources:
        mem_mb=grows(2000),
        runtime=grows(60),
    params:
        # One option after the other, each with the translations of all seeds; then the names of the systems.
        systems=lambda wildcards: named_systems(wildcards),
        tokenize=plan.settings.decoding.bleu_tokenize,
        interval=INTERVAL,
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.bleu"),
    shell:
        "python -m alignlens bleu {params.systems:q} --reference {input.reference:q}"
        " --tokenize {params.tokenize:q} {params.interval:q} --out {output:q} --journal {output:q}.journal.jsonl"
        " --about {params.about:q} > {log:q} 2>&1"
