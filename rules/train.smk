# Translation models: one job per dataset, direction, model and seed. A killed job goes on where it was: what it needs
# for that lives in work/ beside the output, which Snakemake does not know and so does not delete.


rule train:
    input:
        train_source=tokens_of("train", 0),
        train_target=tokens_of("train", 1),
        dev_source=tokens_of("dev", 0),
        dev_target=tokens_of("dev", 1),
        dev_text=side_of("dev", 1),
        subwords=f"{ROOT}/subwords/{{dataset}}",
    output:
        directory(f"{ROOT}/models/{MODEL}/model"),
    log:
        f"{ROOT}/models/{MODEL}/train.log",
    benchmark:
        f"{ROOT}/benchmarks/train/{MODEL}.tsv"
    conda:
        "../envs/alignlens.yaml"
    threads: lambda wildcards: plan.model(wildcards.model).training.threads
    resources:
        # The scores of a batch over the vocabulary, four copies of them, are what grows; text is never in memory.
        mem_mb=lambda wildcards, attempt: int(
            attempt
            * (2000 + 16e-6 * plan.model(wildcards.model).training.batch_tokens * plan.settings.subwords["vocab"])
        ),
        runtime=grows(1440),
        gpu=0,
    params:
        # Depends on resources, so more GPUs do not make a finished model out of date.
        launch=lambda wildcards, resources: (
            f"torchrun --standalone --nproc-per-node {resources.gpu} -m alignlens"
            if resources.gpu > 1
            else "python -m alignlens"
        ),
        settings=lambda wildcards: plan.model(wildcards.model).as_json(),
        source_subwords=lambda wildcards, input: f"{input.subwords}/{model_side(wildcards, 0)}.model",
        target_subwords=lambda wildcards, input: f"{input.subwords}/{model_side(wildcards, 1)}.model",
        work=lambda wildcards, output: os.path.join(os.path.dirname(output[0]), "work"),
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.train"),
    shell:
        "{params.launch} train --settings {params.settings:q} --seed {wildcards.seed}"
        " --train-source {input.train_source} --train-target {input.train_target}"
        " --dev-source {input.dev_source} --dev-target {input.dev_target} --dev-text {input.dev_text}"
        " --source-subwords {params.source_subwords} --target-subwords {params.target_subwords}"
        " --work {params.work} --threads {threads} --out {output} --journal {output}.journal.jsonl"
        " --about {params.about:q} 2> {log}"
