# Generated tasks that many seeds learn side by side.


rule toy:
    output:
        f"{ROOT}/{paths.TOY}",
    log:
        f"{ROOT}/toys/{{toy}}.log",
    benchmark:
        f"{ROOT}/benchmarks/toy/{{toy}}.tsv"
    conda:
        "../envs/alignlens.yaml"
    threads: 1
    resources:
        mem_mb=grows(4000),
        runtime=grows(1440),
    params:
        task=lambda wildcards: plan.learning.toys[wildcards.toy].task,
        settings=lambda wildcards: json.dumps(plan.learning.toys[wildcards.toy].settings, sort_keys=True),
        work=lambda wildcards, output: f"{output[0]}.work",
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.toy"),
    shell:
        "python -m alignlens toy {params.task:q} --settings {params.settings:q} --threads {threads} --work {params.work:q}"
        " --out {output:q} --journal {output:q}.journal.jsonl --about {params.about:q} > {log:q} 2>&1"
