"""Import and export: a Hugging Face model as a model folder, and one of ours as a Marian folder."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from alignlens.errors import ConfigError
from alignlens.io.atomic import atomic_directory, write_json
from alignlens.models.checkpoint import FORMAT, KIND, save_tensors, weights_of
from alignlens.models.contract import parameter_count
from alignlens.models.hub import is_foreign
from alignlens.models.marian_export import exportable, marian_config, write_marian_tensors
from alignlens.subwords.reading import write_segmenter

if TYPE_CHECKING:
    from pathlib import Path

    from alignlens.decoding.translate import TrainedModel

EXPORTED = "exported model"


def import_model(trained: TrainedModel, out: Path) -> None:
    """Writes the model folder of a model from elsewhere, with its subwords and the pieces of their ids."""
    if not is_foreign(trained.folder):
        raise ConfigError(f"{trained.folder}: is an alignlens model already; there is nothing to import.")
    with atomic_directory(out, KIND) as temporary:
        for side, segmenter in (("source", trained.source), ("target", trained.target)):
            write_segmenter(segmenter, temporary / f"{side}.model")
        card = {
            "format": FORMAT,
            "spec": trained.spec.as_json(),
            "parameters": parameter_count(trained.model),
            "imported_from": trained.folder.name,
        }
        write_json(temporary / "model.json", card)
        save_tensors(temporary / "weights.safetensors", weights_of(trained.model), {})


def export_model(trained: TrainedModel, out: Path) -> None:
    """Writes a Marian folder that ``transformers`` loads and translates with."""
    model = exportable(trained.model, trained.spec)
    config = marian_config(trained.spec)
    separate = not config["share_encoder_decoder_embeddings"]
    with atomic_directory(out, EXPORTED) as temporary:
        for side, segmenter in (("source", trained.source), ("target", trained.target)):
            shutil.copyfile(segmenter.path, temporary / f"{side}.spm")
            if side == "source" or separate:
                name = "vocab.json" if side == "source" else "target_vocab.json"
                write_json(temporary / name, {piece: number for number, piece in enumerate(segmenter.vocabulary)})
        write_json(temporary / "config.json", config)
        tokenizer = {"separate_vocabs": separate, "tokenizer_class": "MarianTokenizer", "model_max_length": 512}
        write_json(temporary / "tokenizer_config.json", tokenizer)
        write_marian_tensors(model, trained.spec, temporary / "model.safetensors")
