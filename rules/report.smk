# Tables, figures and the report.


rule report:
    input:
        metrics=plan.metrics(),
        links=plan.links(),
    output:
        page=f"{ROOT}/report.html",
        tables=report(
            expand(f"{ROOT}/report/aer.{{kind}}", kind=["html", "csv", "md", "tex"]),
            caption="../report/table.rst",
            category="Tables",
        ),
        runtime=expand(f"{ROOT}/report/runtime.{{kind}}", kind=["csv", "md"]),
        heatmaps=report(plan.heatmaps(), caption="../report/heatmap.rst", category="Figures"),
    log:
        f"{ROOT}/report/report.log",
    params:
        folder=f"{ROOT}/report",
        root=ROOT,
        metrics=lambda wildcards, input: f"--metrics {input.metrics}" if input.metrics else "",
        heatmaps=plan.settings.heatmaps,
        code=code_version("alignlens.cli.report"),
    resources:
        mem_mb=4000,
        runtime=30,
    conda:
        "../envs/alignlens.yaml"
    shell:
        "python -m alignlens report --results {params.root} {params.metrics} --heatmaps {params.heatmaps}"
        " --out {params.folder} --page {output.page} 2> {log}"
