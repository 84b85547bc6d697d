# Classifiers of labelled texts: prepared, trained and explained at all checkpoints, with a logistic regression beside.


rule prepare_classes:
    output:
        directory(f"{ROOT}/{paths.CLASSES}"),
    log:
        f"{ROOT}/classification/{{corpus}}/prepare.log",
    benchmark:
        f"{ROOT}/benchmarks/prepare_classes/{{corpus}}.tsv"
    conda:
        "../envs/alignlens.yaml"
    resources:
        mem_mb=grows(4000),
        runtime=grows(60),
    params:
        definition=lambda wildcards: json.dumps(plan.settings.labelled[wildcards.corpus].declared, sort_keys=True),
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.classify"),
    shell:
        "python -m alignlens classify prepare {wildcards.corpus:q} --definition {params.definition:q} --out {output:q}"
        " --journal {output:q}.journal.jsonl --about {params.about:q} > {log:q} 2>&1"


rule train_classifier:
    input:
        f"{ROOT}/{paths.CLASSES}",
    output:
        directory(f"{ROOT}/{paths.CLASSIFIER}"),
    log:
        f"{ROOT}/classification/{paths.CLASSIFIER_RUN}/train.log",
    benchmark:
        f"{ROOT}/benchmarks/train_classifier/{paths.CLASSIFIER_RUN}.tsv"
    conda:
        "../envs/alignlens.yaml"
    threads: 1
    resources:
        mem_mb=grows(4000),
        runtime=grows(720),
    params:
        settings=lambda wildcards: json.dumps(
            plan.learning.classifiers[wildcards.corpus, wildcards.classifier].settings, sort_keys=True
        ),
        work=lambda wildcards, output: os.path.join(os.path.dirname(output[0]), "work"),
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.classify"),
    shell:
        "python -m alignlens classify train --data {input:q} --settings {params.settings:q} --seed {wildcards.seed:q}"
        " --threads {threads} --work {params.work:q} --out {output:q} --journal {output:q}.journal.jsonl"
        " --about {params.about:q} > {log:q} 2>&1"


rule explain_classifier:
    input:
        data=f"{ROOT}/{paths.CLASSES}",
        model=f"{ROOT}/{paths.CLASSIFIER}",
    output:
        directory(f"{ROOT}/{paths.EXPLAINED}"),
    log:
        f"{ROOT}/classification/{paths.CLASSIFIER_RUN}/{{split}}.log",
    benchmark:
        f"{ROOT}/benchmarks/explain_classifier/{paths.CLASSIFIER_RUN}/{{split}}.tsv"
    conda:
        "../envs/alignlens.yaml"
    threads: 1
    resources:
        mem_mb=grows(4000),
        runtime=grows(240),
    params:
        texts=lambda wildcards: plan.learning.items(wildcards.corpus, wildcards.split),
        quantities=lambda wildcards: quantities(wildcards),
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.classify"),
    shell:
        "python -m alignlens classify explain --model {input.model:q} --data {input.data:q} --split {wildcards.split:q}"
        " --items {params.texts:q} --quantities {params.quantities:q} --threads {threads} --out {output:q}"
        " --journal {output:q}.journal.jsonl --about {params.about:q} > {log:q} 2>&1"


rule logistic_regression:
    input:
        f"{ROOT}/{paths.CLASSES}",
    output:
        directory(f"{ROOT}/{paths.LOGISTIC}"),
    log:
        f"{ROOT}/classification/{{corpus}}/logistic/{{split}}.log",
    benchmark:
        f"{ROOT}/benchmarks/logistic_regression/{{corpus}}/{{split}}.tsv"
    conda:
        "../envs/alignlens.yaml"
    resources:
        mem_mb=grows(4000),
        runtime=grows(120),
    params:
        texts=lambda wildcards: plan.learning.items(wildcards.corpus, wildcards.split),
        about=lambda wildcards: about(wildcards),
        code=code_version("alignlens.cli.classify"),
    shell:
        "python -m alignlens classify logistic --data {input:q} --split {wildcards.split:q} --items {params.texts:q}"
        " --out {output:q} --journal {output:q}.journal.jsonl --about {params.about:q} > {log:q} 2>&1"
