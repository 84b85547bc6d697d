"""Every reader of the package, with a file of the bench, and a digest of what it reads. A child reads: it may crash."""

from __future__ import annotations

import faulthandler
import gzip
import hashlib
import os
import resource
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from archives import tar_of, zip_of
from bench import ATTRIBUTION, DATA, LINKS, MODEL, MODEL_FOLDER, PIECES, SCORES, SUBWORDS, TOKENS, R

from alignlens.errors import AlignlensError

if TYPE_CHECKING:
    from collections.abc import Callable

PROJECT = Path(__file__).parents[2]
ERROR = "refused"
_SECONDS = 30
_MEMORY = 1 << 30


@dataclass(frozen=True)
class Reader:
    """A function that reads below a folder; ``place`` is the file or the folder of files that is harmed."""

    place: str
    read: Callable[[Path], Any]
    sealed: bool = True
    """Written by a step, so that other bytes are seen; what people write may be changed by them."""


def _alignment(found: Any) -> tuple[Any, ...]:
    return found.keys, found.sentences, found.scores


def _links(folder: Path) -> Any:
    from alignlens.alignment.pharaoh import read_links

    return _alignment(read_links(folder / f"{R}/links/tiny/fast_align/offline/all/xa-xb.pharaoh"))


def _gold(folder: Path) -> Any:
    from alignlens.alignment.gold import read_gold

    gold = read_gold(folder / DATA / "test.gold", 0)
    return _alignment(gold.sure), _alignment(gold.possible)


def _naacl(folder: Path) -> Any:
    from alignlens.alignment.gold import read_gold

    gold = read_gold(folder / "naacl", 1, "naacl")
    return _alignment(gold.sure), _alignment(gold.possible)


def _tokens(folder: Path) -> Any:
    from alignlens.corpora.tokens import TokenStore

    store = TokenStore.open(folder / TOKENS / "train.source")
    return store.vocabulary_size, store.gather(np.arange(len(store)))


def _matrices(folder: Path) -> Any:
    from alignlens.io.matrices import Matrices

    found = Matrices.open(folder / SCORES)
    return [found.names, found.facts, [found.matrix(name, k) for name in found.names for k in found.numbers.tolist()]]


def _tensors(folder: Path) -> Any:
    from alignlens.models.checkpoint import load_tensors

    tensors, about = load_tensors(folder / MODEL_FOLDER / "weights.safetensors")
    return about, {name: tensor.numpy() for name, tensor in tensors.items()}


def _model(folder: Path) -> Any:
    from alignlens.models.checkpoint import load_model, weights_of

    model, spec = load_model(folder / MODEL_FOLDER)
    return spec, {name: tensor.numpy() for name, tensor in weights_of(model).items()}


def _segmenter(folder: Path) -> Any:
    from alignlens.subwords.spans import Segmenter

    segmenter = Segmenter.load(folder / SUBWORDS / "source.model")
    lines = (folder / DATA / "test.source").read_text().splitlines()
    return [segmenter.vocabulary, [segmenter.segment(line) for line in lines]]


def _aligner(folder: Path, name: str) -> Any:
    from alignlens.aligners.thot_models import StoredAligner

    stored = StoredAligner.load(folder / R / f"aligners/tiny/{name}/offline/all/xa-xb/model", name)
    texts = [
        [line.split() for line in (folder / DATA / f"test.{side}").read_text().splitlines()]
        for side in ("source", "target")
    ]
    return stored.training, _alignment(stored.align(*texts))


def _journal(folder: Path) -> Any:
    from alignlens.tracking.journal import read_journal

    return [vars(record) for record in read_journal(folder / f"{MODEL_FOLDER}.journal.jsonl")]


def _yaml(folder: Path) -> Any:
    from alignlens.io.documents import read_yaml

    return read_yaml(folder / "config.yaml")


def _settings(folder: Path) -> Any:
    from alignlens.workflow.settings import load_settings, read_config

    return load_settings(read_config([folder / "config.yaml"]), PROJECT).preset


def _metrics(folder: Path) -> Any:
    from alignlens.results.reader import read_aligner

    return read_aligner(folder / R / "scores/tiny/fast_align/offline/all/metrics.json").rows


def _sentences(folder: Path) -> Any:
    from alignlens.metrics.sentences import read_sentences

    return vars(read_sentences(folder / ATTRIBUTION / "sentences.npz"))


def _entropies(folder: Path) -> Any:
    from alignlens.metrics.links_folder import sentence_entropies

    return sentence_entropies(folder / LINKS, ["attention"])


def _results(folder: Path) -> Any:
    from alignlens.results.manifest import Manifest
    from alignlens.results.reader import read_results

    return read_results(Manifest.whole(folder / R))


def _causes(folder: Path) -> Any:
    from alignlens.metrics.causes import read_causes

    found = read_causes(folder / DATA / "test.causes", folder / DATA / "test.source")
    return vars(found).values()


def _encoders(folder: Path) -> Any:
    from alignlens.results.manifest import Manifest
    from alignlens.studies.kobayashi2020.encoders import read_encoders

    return [vars(found) for found in read_encoders(Manifest.whole(folder / R))]


def _curve(folder: Path) -> Any:
    from alignlens.report.models import ModelId, read_curve
    from alignlens.results.manifest import Manifest

    return read_curve(Manifest.whole(folder / R), ModelId("tiny", "xa-xb", "transformer", 1))


def _models(folder: Path) -> Any:
    from alignlens.report.models import read_models
    from alignlens.results.manifest import Manifest

    models = read_models(Manifest.whole(folder / R), [])
    return [(found.bleu, found.accuracy, found.parameters, found.dev_loss) for found in models]


def _study(folder: Path) -> Any:
    from alignlens.report.studies import read_study

    return read_study(folder / R / "kobayashi2020" / "summary.json")


def _costs(folder: Path) -> Any:
    from alignlens.report.methods import read_compared
    from alignlens.results.manifest import Manifest
    from alignlens.results.scores import Results

    manifest = Manifest.whole(folder / R)
    return read_compared(manifest, Results(manifest)).costs


def _preparation(folder: Path) -> Any:
    from alignlens.report.provenance import read_preparation
    from alignlens.results.manifest import Manifest

    return read_preparation(Manifest.whole(folder / R))


def _manifest(folder: Path) -> Any:
    from alignlens.results.manifest import Manifest

    return Manifest.read(folder / R / "kobayashi2020" / "manifest.json", folder / R)


def _parallel(folder: Path) -> Any:
    from alignlens.io.text import read_parallel

    return read_parallel(folder / PIECES / "test.source", folder / PIECES / "test.target")


def _folder_of_links(folder: Path) -> Any:
    from alignlens.alignment.pharaoh import read_links
    from alignlens.metrics.links_folder import links_files

    return [_alignment(read_links(path)) for path in links_files(folder / LINKS)]


def _archive(folder: Path, name: str) -> Any:
    from alignlens.corpora.registry import DataFile
    from alignlens.corpora.unpack import unpack

    unpack(folder / name, DataFile(mirror=name, member=("text",)), folder / "unpacked")
    return (folder / "unpacked").read_bytes()


READERS: dict[str, Reader] = {
    "read_links": Reader(f"{R}/links/tiny/fast_align/offline/all/xa-xb.pharaoh", _links),
    "links_files": Reader(LINKS, _folder_of_links),
    "read_gold": Reader(f"{DATA}/test.gold", _gold),
    "read_gold of NAACL": Reader("naacl", _naacl, sealed=False),
    "TokenStore": Reader(f"{TOKENS}/train.source", _tokens),
    "Matrices": Reader(SCORES, _matrices),
    "load_tensors": Reader(f"{MODEL_FOLDER}/weights.safetensors", _tensors),
    "load_model": Reader(f"{MODEL_FOLDER}/model.json", _model),
    "Segmenter": Reader(f"{SUBWORDS}/source.model", _segmenter),
    "StoredAligner of fast_align": Reader(
        f"{R}/aligners/tiny/fast_align", lambda folder: _aligner(folder, "fast_align")
    ),
    "StoredAligner of ibm1": Reader(f"{R}/aligners/tiny/ibm1", lambda folder: _aligner(folder, "ibm1")),
    "StoredAligner of hmm": Reader(f"{R}/aligners/tiny/hmm", lambda folder: _aligner(folder, "hmm")),
    "StoredAligner of ibm4": Reader(f"{R}/aligners/tiny/ibm4", lambda folder: _aligner(folder, "ibm4")),
    "StoredAligner of eflomal": Reader(f"{R}/aligners/tiny/eflomal", lambda folder: _aligner(folder, "eflomal")),
    "read_journal": Reader(f"{MODEL_FOLDER}.journal.jsonl", _journal, sealed=False),
    "read_yaml": Reader("config.yaml", _yaml, sealed=False),
    "load_settings": Reader("config.yaml", _settings, sealed=False),
    "read_aligner": Reader(f"{R}/scores/tiny/fast_align/offline/all/metrics.json", _metrics),
    "read_results": Reader(f"{ATTRIBUTION}/metrics.json", _results),
    "read_sentences": Reader(f"{ATTRIBUTION}/sentences.npz", _sentences),
    "sentence_entropies": Reader(f"{LINKS}/entropies.npz", _entropies),
    "read_causes": Reader(f"{DATA}/test.causes", _causes),
    "read_encoders": Reader(f"{R}/encoders/{MODEL}", _encoders),
    "read_curve": Reader(f"{MODEL_FOLDER}/curves.csv", _curve),
    "read_models": Reader(f"{R}/translations/{MODEL}/bleu.json", _models),
    "read_study": Reader(f"{R}/kobayashi2020/summary.json", _study),
    "read_costs": Reader(f"{ATTRIBUTION}/xa-xb/cost.json", _costs),
    "Manifest.read": Reader(f"{R}/kobayashi2020/manifest.json", _manifest),
    "read_preparation": Reader(f"{DATA}/preparation.json", _preparation),
    "read_parallel": Reader(f"{PIECES}/test.source", _parallel),
    "unpack of a tar": Reader("archive.tar", lambda folder: _archive(folder, "archive.tar"), sealed=False),
    "unpack of a tgz": Reader("archive.tgz", lambda folder: _archive(folder, "archive.tgz"), sealed=False),
    "unpack of a zip": Reader("archive.zip", lambda folder: _archive(folder, "archive.zip"), sealed=False),
}


def add_own_files(folder: Path) -> None:
    """Adds what no step writes: a configuration, gold links of another format, archives."""
    (folder / "config.yaml").write_bytes((PROJECT / "config" / "config.yaml").read_bytes())
    (folder / "naacl").write_text("".join(f"{k} {k} 1 {'SP'[k % 2]}\n" for k in range(1, 9)))
    content = b"ein satz\n" * 40
    (folder / "archive.tar").write_bytes(tar_of({"text": content}))
    (folder / "archive.tgz").write_bytes(gzip.compress(tar_of({"text": content})))
    (folder / "archive.zip").write_bytes(zip_of({"text": content}))


def observed(reader: Reader, folder: Path) -> str:
    """Returns a digest of what is read, ``refused``, or what else happened, from a child that may crash."""
    receiving, sending = os.pipe()
    pid = os.fork()
    if pid == 0:
        faulthandler.disable()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        signal.alarm(_SECONDS)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, resource.RLIM_INFINITY))
        try:
            told = digest(reader.read(folder))
        except AlignlensError as error:
            told = ERROR if "\n" not in str(error) else f"several lines: {error}"
        except BaseException as error:
            told = f"{type(error).__name__}: {error}"
        os.write(sending, told.encode(errors="replace")[:1000])
        os._exit(0)
    os.close(sending)
    with os.fdopen(receiving, "rb") as pipe:
        told = pipe.read().decode(errors="replace")
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return told if status == 0 else f"ended by signal {-status}"


def digest(value: Any) -> str:
    """Returns a digest of numbers, arrays, texts and what is made of them."""
    made = hashlib.sha256()
    _add(made, value)
    return made.hexdigest()


def _add(made: Any, value: Any) -> None:
    if isinstance(value, np.ndarray):
        made.update(f"{value.dtype} {value.shape}".encode() + value.tobytes())
    elif isinstance(value, dict):
        _add(made, list(value.items()))
    elif isinstance(value, bytes | str):
        made.update(value if isinstance(value, bytes) else value.encode(errors="surrogatepass"))
    elif hasattr(value, "__iter__"):
        made.update(b"[")
        for item in value:
            _add(made, item)
        made.update(b"]")
    else:
        made.update(repr(value).encode(errors="surrogatepass"))
