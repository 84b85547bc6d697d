# Tables, figures and the report.


rule report:
    input:
        plan.report.inputs(),
        manifest=f"{ROOT}/report/{MANIFEST}",
    output:
        page=f"{ROOT}/report.html",
        # Not for Snakemake's own report, which takes folders only as a zip file.
        browser=directory(f"{ROOT}/{paths.BROWSER}"),
        front=report(f"{ROOT}/index.html", caption="../report/front.rst", category="Studies"),
        tables=report(
            expand(f"{ROOT}/report/aer.{{kind}}", kind=["html", "csv", "md", "tex"]),
            caption="../report/table.rst",
            category="Tables",
        ),
        models=report(plan.report.model_tables(), caption="../report/models.rst", category="Tables"),
        methods=report(plan.report.method_tables(), caption="../report/methods.rst", category="Tables"),
        runtime=expand(f"{ROOT}/report/runtime.{{kind}}", kind=["csv", "md"]),
        curves=report(plan.report.curves(), caption="../report/curves.rst", category="Figures"),
        heatmaps=report(plan.report.heatmaps(), caption="../report/heatmap.rst", category="Figures"),
    log:
        f"{ROOT}/report/report.log",
    conda:
        "../envs/alignlens.yaml"
    resources:
        mem_mb=grows(4000),
        runtime=grows(30),
    params:
        folder=lambda wildcards, output: os.path.dirname(output.tables[0]),
        root=lambda wildcards, output: os.path.dirname(output.page),
        heatmaps=plan.settings.heatmaps,
        code=code_version("alignlens.cli.report"),
    shell:
        "python -m alignlens report --results {params.root:q} --manifest {input.manifest:q}"
        " --heatmaps {params.heatmaps:q} --out {params.folder:q} --page {output.page:q}"
        " --browser {output.browser:q} --front {output.front:q} 2> {log:q}"
