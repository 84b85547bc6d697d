"""Training and decoding speed of our Transformer, against Joey NMT and a plain loop around torch.nn.Transformer.

All three have the same sizes, the same weights (checked: the same probabilities), the same batches and the same
threads, and take turns in one run; what is reported is the median over rounds of the ratio of their times. So is what
calibrated attention and its mask game, which reads every target twice, cost beside the plain Transformer. LSTM and
FConv have no peers here: of them, the share of the rate of matrix products and the profile are told.

python benchmarks/training.py [--size demo] [--threads 1] [--rounds 7] [--profile]
                              [--only training|decoding|calibration]
python benchmarks/training.py --architecture lstm|fconv [--profile]

Joey NMT takes part where it is installed (pip install joeynmt==2.3.0).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from statistics import median
from typing import cast

import numpy as np
import torch
from peers import SMOOTHING, JoeyNmt, Peer, PlainTorch
from torch import Tensor

from alignlens.corpora.batches import Batch
from alignlens.corpora.symbols import BEGIN_ID, END_ID, PADDING_ID
from alignlens.decoding.beam import beam_search
from alignlens.decoding.sentences import SentencesInMemory
from alignlens.decoding.settings import BeamSettings
from alignlens.models.base_settings import ArchitectureSettings
from alignlens.models.registry import build
from alignlens.models.settings import CalibratedSettings, FconvSettings, LstmSettings, ModelSpec, TransformerSettings
from alignlens.training.objectives.contract import Material, Moment
from alignlens.training.objectives.cross_entropy import smoothed_cross_entropy
from alignlens.training.objectives.mask_game import MaskGame
from alignlens.training.objectives.registry import MaskGameOptions
from alignlens.training.settings import TrainingSettings
from alignlens.workflow.costs.arithmetic import passes

SMALL = TransformerSettings(dim=256, ffn=1024, heads=4, encoder_layers=3, decoder_layers=3)
SIZES = {"small": (SMALL, 8000), "demo": (replace(SMALL, dim=64, ffn=256, encoder_layers=2, decoder_layers=2), 800)}
#: The presets of Ding et al. (2019) in config/models.yaml, at the width of the size.
OTHERS = {
    "lstm": lambda dim: LstmSettings(dim=dim, hidden=dim),
    "fconv": lambda dim: FconvSettings(dim=dim, hidden=dim),
}


@dataclass(frozen=True, eq=False)
class Pairs:
    """A batch as tensors: ids padded on the right."""

    source: Tensor
    prefix: Tensor
    labels: Tensor

    @property
    def mask(self) -> Tensor:
        """True at real source positions."""
        return self.source != PADDING_ID

    @property
    def keep(self) -> Tensor:
        """True where there is a label."""
        return self.labels != PADDING_ID


class Ours:
    """The model and training step of alignlens."""

    name = "alignlens"
    architecture = "transformer"

    def __init__(self, settings: ArchitectureSettings, vocab: int, architecture: str = "") -> None:
        torch.manual_seed(1)
        self.spec = ModelSpec(architecture or self.architecture, settings, vocab, vocab)
        self.model = build(self.spec)
        # Control symbols never win, so that decoding with these random weights has no end before its limit.
        torch.nn.init.zeros_(self.model.output.weight.detach()[: PADDING_ID + 1])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, weight_decay=0.0, fused=True)

    def log_probs(self, pairs: Pairs) -> Tensor:
        """Returns (labels, vocabulary)."""
        return self.model.eval()(pairs.source, pairs.mask, pairs.prefix, pairs.keep).log_softmax(-1)

    def train_step(self, pairs: Pairs) -> None:
        """Makes one update, as the training loop does it: with the gradient's norm."""
        keep = pairs.keep
        labels = pairs.labels[keep]
        logits = self.model.train()(pairs.source, pairs.mask, pairs.prefix, keep)
        (smoothed_cross_entropy(logits, labels, SMOOTHING) / len(labels)).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), float("inf"))
        self.optimizer.step()
        self.optimizer.zero_grad()

    def translate(self, pairs: Pairs, beam: int, length: int) -> Tensor:
        """Returns ``length`` tokens of every sentence."""
        settings = BeamSettings(beam, max_ratio=0, max_offset=length)
        found = beam_search(self.model.eval(), pairs.source, pairs.mask, settings)
        return torch.tensor([best.ids for best, *_ in found])


class Playing(Ours):
    """A calibrated model and an update of its game, as the training loop makes it: each player by its own loss."""

    name = architecture = "calibrated"

    def __init__(self, settings: CalibratedSettings, vocab: int) -> None:
        super().__init__(settings, vocab)
        spec = ModelSpec("calibrated", settings, vocab, vocab)
        training = TrainingSettings(max_updates=1, label_smoothing=SMOOTHING)
        nothing = SentencesInMemory([])
        self.game = MaskGame(MaskGameOptions(), Material(spec, training, nothing, nothing))
        self.players = self.game.players(self.model)

    def train_step(self, pairs: Pairs) -> None:
        """Makes one update, with the norm of each player's gradient."""
        arrays = (each.numpy() for each in (pairs.source, pairs.mask, pairs.prefix, pairs.labels))
        outcome = self.game(self.model.train(), Batch(np.arange(len(pairs.source)), *arrays), Moment(1, 1, 0))
        for name, player in self.players.items():
            loss = outcome.losses[name] / int(pairs.keep.sum())
            torch.autograd.backward(loss, inputs=player.parameters, retain_graph=name == "model")
            torch.nn.utils.clip_grad_norm_(player.parameters, float("inf"))
        self.optimizer.step()
        self.optimizer.zero_grad()


def batches(vocab: int, tokens: int, count: int) -> list[Pairs]:
    """Random batches of ``tokens`` padded tokens, of sentences of about equal source length, as training has them."""
    generator = torch.Generator().manual_seed(1)

    def ids(lengths: Tensor) -> list[Tensor]:
        return [torch.randint(4, vocab, (length,), generator=generator) for length in lengths.tolist()]

    def padded(rows: list[Tensor], before: list[int], after: list[int]) -> Tensor:
        full = [torch.tensor([*before, *row.tolist(), *after]) for row in rows]
        return torch.nn.utils.rnn.pad_sequence(full, batch_first=True, padding_value=PADDING_ID)

    made = []
    for around in torch.linspace(8, 40, count).round().long().tolist():
        rows = tokens // (around + 3)
        lengths = torch.randint(around - 1, around + 2, (rows,), generator=generator)
        noise = torch.randn(rows, generator=generator) * 0.1 * around
        source, target = ids(lengths), ids((lengths + noise.round().long()).clamp(2))
        made.append(Pairs(padded(source, [], [END_ID]), padded(target, [BEGIN_ID], []), padded(target, [], [END_ID])))
    return made


def interleaved(works: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Returns seconds by name and round; each name runs once in every round, and once before the first.

    Of one thread they are its CPU time, which other work on the machine disturbs little.
    """
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(rounds + 1):
        for name, work in works.items():
            started = clock()
            work()
            if turn:
                seconds[name].append(clock() - started)
    return seconds


def report(title: str, tokens: int, seconds: dict[str, list[float]]) -> None:
    """Prints tokens per second, and how many times faster ours is: the median over rounds."""
    print(f"\n{title}")
    for name, times in seconds.items():
        ratio = median(other / own for other, own in zip(times, seconds[Ours.name], strict=True))
        note = "" if name == Ours.name else f"   ours is {ratio:.2f} x as fast"
        print(f"  {name:<26} {tokens / median(times):>9,.0f} target tokens/s{note}")


def pass_of(peer: Peer | Ours, data: list[Pairs]) -> Callable[[], None]:
    """Returns a pass over all batches, an update each."""

    def work() -> None:
        for pairs in data:
            peer.train_step(pairs)

    return work


def few(data: list[Pairs], sentences: int) -> Pairs:
    """Returns the first sentences of the batch in the middle, to be decoded."""
    pairs = data[len(data) // 2]
    return Pairs(*(part[:sentences] for part in (pairs.source, pairs.prefix, pairs.labels)))


def compare_calibration(
    settings: TransformerSettings, vocab: int, data: list[Pairs], sentences: int, rounds: int
) -> None:
    """Prints how many times as long the calibrated model takes as the plain one."""
    plain, playing = Ours(settings, vocab), Playing(CalibratedSettings(**asdict(settings)), vocab)
    pairs, both = few(data, sentences), (plain, playing)
    length = pairs.source.shape[1]
    works: dict[str, tuple[float, dict[str, Callable[[], object]]]] = {
        "an update of the mask game": (2.2, {each.name: pass_of(each, data) for each in both}),
        "decoding, beam 1": (1.25, {each.name: partial(each.translate, pairs, 1, length) for each in both}),
        "decoding, beam 5": (1.25, {each.name: partial(each.translate, pairs, 5, length) for each in both}),
    }
    print("\ncalibrated, times as long as the plain Transformer")
    for what, (bar, work) in works.items():
        seconds = interleaved(work, rounds)
        ratios = sorted(longer / own for longer, own in zip(seconds[playing.name], seconds[plain.name], strict=True))
        print(f"  {what:<26} {median(ratios):.2f} x, from {ratios[0]:.2f} to {ratios[-1]:.2f}   (bar {bar})")


def compare_training(
    peers: list[Peer | Ours], data: list[Pairs], rounds: int, ours_adds: float, product: Product
) -> None:
    """Prints the rates of a pass over all batches, and how far ours is from the rate of matrix products."""
    # The products take turns with the models: on a busy machine only what ran side by side can be compared.
    seconds = interleaved({"": product.run, **{peer.name: pass_of(peer, data) for peer in peers}}, rounds)
    of_product = seconds.pop("")
    tokens = sum(int(pairs.keep.sum()) for pairs in data)
    padded = sum(pairs.labels.numel() for pairs in data)
    report(f"training, {len(data)} batches of {tokens / len(data):,.0f} target tokens", tokens, seconds)
    print(f"  ({1 - tokens / padded:.0%} of the padded target positions are padding)")
    rate = ours_adds / median(seconds[Ours.name])
    limit = product.adds / median(of_product)
    share = median(
        ours_adds / own * other / product.adds for own, other in zip(seconds[Ours.name], of_product, strict=True)
    )
    print("\nmatrix products, billion multiply-adds/s")
    print(f"  one large product  {limit / 1e9:>7.1f}")
    print(f"  our training step  {rate / 1e9:>7.1f}   {share:.0%} of it")


def compare_decoding(peers: list[Peer | Ours], data: list[Pairs], sentences: int, rounds: int) -> None:
    """Prints the rates of decoding as many tokens as the source has, after comparing what is decoded."""
    pairs = few(data, sentences)
    length = pairs.source.shape[1]
    for beam in (1, 5):
        able = [peer for peer in peers if beam == 1 or not isinstance(peer, PlainTorch)]
        expected, *others = (peer.translate(pairs, beam, length) for peer in able)
        works = {peer.name: partial(peer.translate, pairs, beam, length) for peer in able}
        title = f"decoding, beam {beam}, {len(pairs.source)} sentences of {length} tokens"
        report(title, expected.numel(), interleaved(works, rounds))
        for peer, found in zip(able[1:], others, strict=True):
            print(f"  (the same tokens as {peer.name}: {(found == expected).float().mean():.0%})")


def multiply_adds(settings: ArchitectureSettings, vocab: int, pairs: Pairs) -> float:
    """Returns the multiply-adds of a training step's matrix products, padding included.

    Backward takes twice as many as forward: one product for the inputs, one for the weights. Logits are only made where
    there is a label.
    """
    rows, source = pairs.source.shape
    forward = passes(settings, vocab, source, pairs.prefix.shape[1])
    return 3 * (rows * (forward.encoder + forward.decoder) + int(pairs.keep.sum()) * settings.dim * vocab)


class Product:
    """A matrix product large enough to run at the machine's best rate."""

    side, repeats = 1536, 3

    def __init__(self) -> None:
        self.a, self.b, self.out = (torch.ones(self.side, self.side) for _ in range(3))
        self.adds = self.repeats * self.side**3

    def run(self) -> None:
        """Multiplies."""
        for _ in range(self.repeats):
            torch.mm(self.a, self.b, out=self.out)


GROUPS = {
    "matrix products": ("aten::addmm", "aten::mm", "aten::bmm", "aten::baddbmm", "aten::addmm_", "aten::baddbmm_"),
    "recurrent layers, fused": ("aten::mkldnn_rnn_layer", "aten::mkldnn_rnn_layer_backward"),
    "gates": (
        *("aten::sigmoid", "aten::tanh", "aten::glu", "aten::sigmoid_backward", "aten::tanh_backward"),
        "aten::glu_backward",
    ),
    "norms of weights": ("aten::_weight_norm_interface", "aten::_weight_norm_interface_backward"),
    "dropout (but products)": ("aten::random_", "aten::ge"),
    "softmax of attention": ("aten::_softmax", "aten::_softmax_backward_data", "aten::masked_fill_"),
    "layer norm": ("aten::native_layer_norm", "aten::native_layer_norm_backward"),
    "loss": ("aten::_log_softmax", "aten::exp_", "aten::sub_", "aten::scatter_add_"),
    "optimizer and norm": ("aten::_fused_adamw_", "aten::_foreach_norm", "aten::linalg_vector_norm"),
    "copies": ("aten::copy_", "aten::cat", "aten::index"),
    "products by element": ("aten::mul", "aten::mul_"),
}


def tell_profile(ours: Ours, data: list[Pairs]) -> None:
    """Prints the share of each group of operations in training steps, by time spent in the operation itself."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as seen:
        for pairs in data:
            ours.train_step(pairs)
    own = {event.key: event.self_cpu_time_total for event in seen.key_averages()}
    total = sum(own.values())
    print("\nprofile of our training steps")
    for group, names in GROUPS.items():
        spent = sum(own.pop(name, 0) for name in names)
        if spent:
            print(f"  {group:<24} {spent / total:>5.1%}")
    largest = sorted(own.items(), key=lambda item: -item[1])
    print(f"  {'everything else':<24} {sum(own.values()) / total:>5.1%}   most of it:")
    for name, spent in largest[:8]:
        print(f"    {name:<40} {spent / total:>5.1%}")


def with_dropout(settings: ArchitectureSettings, rate: float) -> ArchitectureSettings:
    """Returns settings with one rate everywhere but between recurrent layers.

    Joey NMT and torch.nn.Transformer know one rate for all places; ours has it there too, for the same work.
    """
    places = [field.name for field in fields(settings) if field.name.endswith("dropout") and field.name[:5] != "layer"]
    return replace(settings, **dict.fromkeys(places, rate))


def taking_part(settings: TransformerSettings, vocab: int, data: list[Pairs]) -> Iterator[Peer | Ours]:
    """Yields ours and the peers that are there, after comparing what they predict."""
    ours = Ours(settings, vocab)
    yield ours
    with torch.no_grad():
        expected = ours.log_probs(data[0])
    for kind in (PlainTorch, JoeyNmt):
        try:
            peer = kind(settings, vocab, ours.model)
        except ImportError as problem:
            print(f"{kind.name} does not take part: {problem}")
            continue
        with torch.no_grad():
            difference = (peer.log_probs(data[0]) - expected).abs().max()
        if difference > 1e-3:
            raise SystemExit(f"{kind.name} computes something different: log-probabilities differ by {difference:.2g}")
        yield peer


def tell_training(peers: list[Peer | Ours], data: list[Pairs], args: argparse.Namespace) -> None:
    """Prints rates of training, the first of the peers being ours, and its profile if that is wanted."""
    ours = cast("Ours", peers[0])
    spec = ours.spec
    adds = sum(multiply_adds(spec.settings, spec.target_vocab, pairs) for pairs in data)
    compare_training(peers, data, args.rounds, adds, Product())
    if args.profile:
        tell_profile(ours, data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--architecture", choices=("transformer", *OTHERS), default="transformer")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=2000, help="padded tokens of a batch")
    parser.add_argument("--sentences", type=int, default=32, help="decoded at once")
    parser.add_argument("--dropout", type=float, default=0.1, help="everywhere")
    parser.add_argument("--own-dropout", action="store_true", help="only where our settings have it; without the peers")
    parser.add_argument("--only", choices=("training", "decoding", "calibration"))
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    settings, vocab = SIZES[args.size]
    data = batches(vocab, args.tokens, args.batches)
    if args.architecture in OTHERS:
        other = with_dropout(OTHERS[args.architecture](settings.dim), args.dropout)
        print(f"{args.architecture}: {other}, {vocab} pieces; {args.threads} thread(s), torch {torch.__version__}")
        tell_training([Ours(other, vocab, args.architecture)], data, args)
        return
    if args.own_dropout:
        print(f"{args.size}, dropout as in our settings; {args.threads} thread(s), torch {torch.__version__}")
        tell_training([Ours(settings, vocab)], data, args)
        return
    settings = with_dropout(settings, args.dropout)
    print(f"{args.size}: {settings.encoder_layers}+{settings.decoder_layers} layers, width {settings.dim},", end=" ")
    print(f"feed-forward {settings.ffn}, {vocab} pieces, dropout {args.dropout};", end=" ")
    print(f"{args.threads} thread(s), torch {torch.__version__}")
    if args.only in (None, "training"):
        tell_training(list(taking_part(settings, vocab, data)), data, args)
    if args.only in (None, "decoding"):
        compare_decoding(list(taking_part(settings, vocab, data)), data, args.sentences, args.rounds)
    if args.only in (None, "calibration"):
        compare_calibration(settings, vocab, data, args.sentences, args.rounds)


if __name__ == "__main__":
    main()
