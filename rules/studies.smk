# The studies of the configuration: a target of its name for each, and the job that makes its tables, figures and claims
# from the scores of models and aligners.
STUDIES = {name: study_of(name) for name in plan.studies.active()}


# The manifests of everything that a study or the report may read, since the results folder may also hold files of
# earlier configurations.
rule manifest:
    input:
        template=f"{PROJECT}/rules/manifest.json.j2",
    output:
        f"{ROOT}/{{reader}}/{MANIFEST}",
    log:
        f"{ROOT}/{{reader}}/manifest.log",
    wildcard_constraints:
        reader="|".join([*STUDIES, "report"]),
    localrule: True
    params:
        content=lambda wildcards: manifest_of(wildcards.reader),
    template_engine:
        "jinja2"


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
            manifest=plan.studies.manifest_file(study.name),
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
            " --manifest {input.manifest:q} --journal {params.folder:q}/study.journal.jsonl --about {params.about:q} > {log:q} 2>&1"
