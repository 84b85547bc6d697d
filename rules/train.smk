# Translation models, and mask nets for them: one job per dataset, direction, model and seed. A killed job continues where it was: what it needs
# for that is in work/ beside the output, which Snakemake does not know and so does not delete.


rule train:
    input:
        train_source=tokens_of("train", 0),
        train_target=tokens_of("train", 1),
        dev_source=tokens_of("dev", 0),
        dev_target=tokens_of("dev", 1),
        dev_text=side_of("dev", 1),
        subwords=f"{ROOT}/{paths.SUBWORDS}",
        start=lambda wildcards: plan.start_of(**wildcards),
    output:
        directory(f"{ROOT}/{paths.TRAINED}"),
    log:
        f"{ROOT}/models/{MODEL}/train.log",
    benchmark:
        f"{ROOT}/benchmarks/train/{MODEL}.tsv"
    wildcard_constraints:
        model=OURS,
    conda:
        "../envs/alignlens.yaml"
    threads: lambda wildcards: plan.model(wildcards.model).training.threads
    resources:
        # Memory grows with the scores of a batch over the vocabulary, four copies of them; text is never in memory.
        mem_mb=lambda wildcards, attempt: int(
            attempt * (2000 + 16e-6 * plan.model(wildcards.model).training.batch_tokens * plan.settings.subwords.vocab)
        ),
        runtime=grows(1440),
        gpu=0,
    params:
        # Taken from resources, so that more GPUs do not make a finished model out of date.
        launch=lambda wildcards, resources: (
            ["torchrun", "--standalone", "--nproc-per-node", resources.gpu, "-m", "alignlens"]
            if resources.gpu > 1
            else ["python", "-m", "alignlens"]
        ),
        settings=lambda wildcards: plan.model(wildcards.model).as_json(),
        source_subwords=lambda wildcards, input: f"{input.subwords}/{model_side(wildcards, 0)}.model",
        target_subwords=lambda wildcards, input: f"{input.subwords}/{model_side(wildcards, 1)}.model",
        pairs=lambda wildcards: option("--pairs", plan.planned(wildcards.model).pairs),
        start=lambda wildcards, input: option("--start-from", input.start or None),
        work=lambda wildcards, output: os.path.join(os.path.dirname(output[0]), "work"),
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.train"),
    shell:
        "{params.launch:q} train --settings {params.settings:q} --seed {wildcards.seed:q}"
        " --train-source {input.train_source:q} --train-target {input.train_target:q}"
        " --dev-source {input.dev_source:q} --dev-target {input.dev_target:q} --dev-text {input.dev_text:q}"
        " --source-subwords {params.source_subwords:q} --target-subwords {params.target_subwords:q}"
        " {params.pairs:q} {params.start:q} --work {params.work:q} --threads {threads} --out {output:q} --journal {output:q}.journal.jsonl"
        " --about {params.about:q} 2> {log:q}"


rule train_masks:
    input:
        model=f"{ROOT}/{paths.TRAINED}",
        train_source=tokens_of("train", 0),
        train_target=tokens_of("train", 1),
        dev_source=tokens_of("dev", 0),
        dev_target=tokens_of("dev", 1),
    output:
        directory(f"{ROOT}/{paths.MASKS}"),
    log:
        f"{ROOT}/models/{MODEL}/masks.log",
    benchmark:
        f"{ROOT}/benchmarks/train_masks/{MODEL}.tsv"
    conda:
        "../envs/alignlens.yaml"
    threads: MASKS.trained().threads
    resources:
        mem_mb=lambda wildcards, attempt: int(
            attempt * (2000 + 16e-6 * MASKS.trained().batch_tokens * plan.vocabulary(wildcards.model))
        ),
        runtime=grows(240),
    params:
        settings=json.dumps(written(MASKS), sort_keys=True),
        work=lambda wildcards, output: f"{output[0]}.work",
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.masks"),
    shell:
        "python -m alignlens masks --model {input.model:q} --source {input.train_source:q} --target {input.train_target:q}"
        " --dev-source {input.dev_source:q} --dev-target {input.dev_target:q} --settings {params.settings:q}"
        " --seed {wildcards.seed:q} --work {params.work:q} --threads {threads} --out {output:q}"
        " --journal {output:q}.journal.jsonl --about {params.about:q} 2> {log:q}"
