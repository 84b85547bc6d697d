# The studies of the configuration: a target of its name for each, and the job that makes its tables, figures and claims
# from what models and aligners have scored.
STUDIES = {name: study_of(name) for name in plan.settings.studies if plan.studies.files(name)}


for study in STUDIES.values():

    # snakemake --cores all NAME builds this study and what it needs.
    rule:
        name:
            study.name
        input:
            plan.studies.files(study.name),
        localrule: True

    rule:
        name:
            f"{study.name}_study"
        input:
            plan.studies.inputs(study.name),
            study.printed,
        output:
            report(
                plan.studies.files(study.name),
                caption=str(study.folder / "caption.rst"),
                category="Studies",
                subcategory=study.name,
            ),
        log:
            f"{ROOT}/{study.name}/study.log",
        benchmark:
            f"{ROOT}/benchmarks/{study.name}_study.tsv"
        conda:
            "../envs/alignlens.yaml"
        resources:
            mem_mb=grows(4000),
            runtime=grows(60),
        params:
            study=study.name,
            root=lambda wildcards, output: os.path.dirname(os.path.dirname(output[0])),
            folder=lambda wildcards, output: os.path.dirname(output[0]),
            about=json.dumps({"preset": plan.settings.preset}),
            code=code_version("alignlens.cli.study", study.module),
        shell:
            "python -m alignlens study {params.study:q} --results {params.root:q} --out {params.folder:q}"
            " --journal {params.folder:q}/study.journal.jsonl --about {params.about:q} > {log:q} 2>&1"
