# Kobayashi, Kuribayashi, Yokoi and Inui (2020): snakemake --cores all kobayashi2020 builds this study and what it needs.


rule kobayashi2020:
    input:
        plan.studies.files("kobayashi2020"),


rule kobayashi2020_study:
    input:
        plan.studies.inputs("kobayashi2020"),
    output:
        report(
            plan.studies.files("kobayashi2020"),
            caption="../report/kobayashi2020.rst",
            category="Studies",
            subcategory="kobayashi2020",
        ),
    log:
        f"{ROOT}/kobayashi2020/study.log",
    benchmark:
        f"{ROOT}/benchmarks/kobayashi2020_study.tsv"
    conda:
        "../envs/alignlens.yaml"
    resources:
        mem_mb=grows(4000),
        runtime=grows(60),
    params:
        root=lambda wildcards, output: os.path.dirname(os.path.dirname(output[0])),
        folder=lambda wildcards, output: os.path.dirname(output[0]),
        about=json.dumps({"preset": plan.settings.preset}),
        code=code_version("alignlens.cli.study", "alignlens.cli.study_kobayashi2020"),
    shell:
        "python -m alignlens study kobayashi2020 --results {params.root:q} --out {params.folder:q}"
        " --journal {params.folder:q}/study.journal.jsonl --about {params.about:q} > {log:q} 2>&1"
