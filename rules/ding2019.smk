# Ding, Xu and Koehn (2019): snakemake --cores all ding2019 builds this study and what it needs.


rule ding2019:
    input:
        plan.studies.files("ding2019"),


rule ding2019_study:
    input:
        plan.studies.inputs("ding2019"),
    output:
        report(
            plan.studies.files("ding2019"),
            caption="../report/ding2019.rst",
            category="Studies",
            subcategory="ding2019",
        ),
    log:
        f"{ROOT}/ding2019/study.log",
    benchmark:
        f"{ROOT}/benchmarks/ding2019_study.tsv"
    conda:
        "../envs/alignlens.yaml"
    resources:
        mem_mb=grows(4000),
        runtime=grows(60),
    params:
        root=lambda wildcards, output: os.path.dirname(os.path.dirname(output[0])),
        folder=lambda wildcards, output: os.path.dirname(output[0]),
        about=json.dumps({"preset": plan.settings.preset}),
        code=code_version("alignlens.cli.study", "alignlens.cli.study_ding2019"),
    shell:
        "python -m alignlens study ding2019 --results {params.root:q} --out {params.folder:q}"
        " --journal {params.folder:q}/study.journal.jsonl --about {params.about:q} > {log:q} 2>&1"
