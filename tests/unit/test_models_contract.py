"""What every architecture promises, tested on each of them in the same way."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from alignlens.corpora.symbols import BEGIN_ID, END_ID, PADDING_ID
from alignlens.errors import ConfigError
from alignlens.models.base_settings import Sharing
from alignlens.models.contract import Memory, Seq2Seq, length_mask, parameter_count
from alignlens.models.registry import build
from alignlens.models.settings import CalibratedSettings, FconvSettings, LstmSettings, ModelSpec, TransformerSettings
from alignlens.models.t5_settings import T5Settings

SOURCE_VOCAB, TARGET_VOCAB = 23, 29
FIRST_PIECE = PADDING_ID + 1

TRANSFORMER = TransformerSettings(dim=10, ffn=13, heads=5, encoder_layers=2, decoder_layers=3)
CALIBRATED = CalibratedSettings(dim=10, ffn=13, heads=5, encoder_layers=2, decoder_layers=3, rows="renorm")
DING = LstmSettings(dim=5, hidden=7)
SNELL = LstmSettings(
    dim=5,
    hidden=7,
    encoder_layers=2,
    decoder_layers=2,
    bidirectional=True,
    input_feeding=False,
    output="two_layer",
    layer_dropout=0.5,
    output_dropout=0.0,
)
FCONV = FconvSettings(dim=5, hidden=7, encoder_layers=2, decoder_layers=2, max_positions=31)
FIRST_T5 = T5Settings(dim=10, ffn=13, heads=5, head_dim=3, encoder_layers=2, decoder_layers=3, distances=6, farthest=4)
LATER_T5 = replace(FIRST_T5, embeddings="tied", activation="gelu_tanh", gated=True, scale_output=False)

SPECS = {
    "transformer post": ModelSpec("transformer", TRANSFORMER, SOURCE_VOCAB, TARGET_VOCAB),
    "transformer pre": ModelSpec("transformer", replace(TRANSFORMER, norm="pre"), SOURCE_VOCAB, TARGET_VOCAB),
    "transformer tied": ModelSpec(
        "transformer", replace(TRANSFORMER, embeddings="tied", output_bias=True), SOURCE_VOCAB, TARGET_VOCAB
    ),
    "transformer shared": ModelSpec(
        "transformer", replace(TRANSFORMER, norm="pre", embeddings="shared_tied"), TARGET_VOCAB, TARGET_VOCAB
    ),
    "transformer entered otherwise": ModelSpec(
        "transformer",
        replace(TRANSFORMER, norm_embeddings=True, max_positions=31, scale_embeddings=False, activation="gelu"),
        SOURCE_VOCAB,
        TARGET_VOCAB,
    ),
    "transformer fairseq": ModelSpec(
        "transformer", replace(TRANSFORMER, sinusoids="fairseq", norm="pre"), SOURCE_VOCAB, TARGET_VOCAB
    ),
    "transformer calibrated": ModelSpec("calibrated", CALIBRATED, SOURCE_VOCAB, TARGET_VOCAB),
    "lstm ding": ModelSpec("lstm", DING, SOURCE_VOCAB, TARGET_VOCAB),
    "lstm snell": ModelSpec("lstm", SNELL, SOURCE_VOCAB, TARGET_VOCAB, source_begin=True),
    "t5": ModelSpec("t5", FIRST_T5, SOURCE_VOCAB, TARGET_VOCAB),
    "t5 gated": ModelSpec("t5", LATER_T5, SOURCE_VOCAB, TARGET_VOCAB),
    "fconv": ModelSpec("fconv", FCONV, SOURCE_VOCAB, TARGET_VOCAB),
}
TRANSFORMERS = [name for name in SPECS if name.startswith("transformer")]


@pytest.fixture(params=SPECS)
def spec(request: pytest.FixtureRequest) -> ModelSpec:
    """Each architecture in its variants."""
    return SPECS[request.param]


@pytest.fixture
def model(spec: ModelSpec) -> Seq2Seq:
    """A new model, not training."""
    return build(spec, seed=11).eval()


def source_batch(lengths: list[int], padding: int = 0) -> tuple[Tensor, Tensor]:
    """Random source ids that end with END, padded on the right beyond the longest by ``padding``; and their mask."""
    longest = max(lengths) + padding
    generator = torch.Generator().manual_seed(5)
    ids = torch.full((len(lengths), longest), PADDING_ID)
    for row, length in enumerate(lengths):
        ids[row, : length - 1] = torch.randint(FIRST_PIECE, SOURCE_VOCAB, (length - 1,), generator=generator)
        ids[row, length - 1] = END_ID
    return ids, length_mask(torch.tensor(lengths), longest)


def random_prefixes(rows: int, length: int, seed: int = 3) -> Tensor:
    """Random prefix ids that start with BEGIN."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(FIRST_PIECE, TARGET_VOCAB, (rows, length), generator=generator)
    ids[:, 0] = BEGIN_ID
    return ids


def encoded(model: Seq2Seq, ids: Tensor, mask: Tensor, trace: bool = False) -> Memory:
    """The memory of source ids."""
    return model.encode(model.embed_source(ids), mask, trace)


def close(a: Tensor, b: Tensor, within: float = 1e-5) -> bool:
    """Whether two tensors of one shape differ nowhere by more than ``within``."""
    return a.shape == b.shape and bool((a - b).abs().max() <= within)


def test_shapes_are_those_of_the_contract(model: Seq2Seq, spec: ModelSpec) -> None:
    ids, mask = source_batch([7, 5, 3])
    prefix = random_prefixes(3, 5)
    memory = encoded(model, ids, mask, trace=True)
    decoded = model.decode(memory, model.embed_target(prefix), trace=True)
    assert memory.vectors.shape == (3, 7, spec.settings.dim)
    assert memory.mask is mask
    assert memory.states.shape[:2] == (3, 7)
    assert decoded.states.shape[:2] == (3, 5)
    assert model.logits(decoded.states).shape == (3, 5, TARGET_VOCAB)
    assert model.logits(decoded.states[mask[:, :5]]).shape == (5 + 5 + 3, TARGET_VOCAB)
    for attention in decoded.cross:
        batch, heads, queries, keys = attention.weights.shape
        assert (batch, queries, keys) == (3, 5, 7)
        assert attention.values.shape[:3] == (3, heads, 7)
        assert attention.projection.shape[:2] == (heads, attention.values.shape[3])
        assert attention.bias is None or attention.bias.shape == attention.projection.shape[2:]
    assert len(decoded.cross) == (1 if spec.architecture == "lstm" else spec.settings.decoder_layers)


def test_forward_keeps_the_asked_positions(model: Seq2Seq) -> None:
    ids, mask = source_batch([7, 5, 3])
    prefix = random_prefixes(3, 5)
    keep = length_mask(torch.tensor([2, 5, 3]), 5)
    full = model(ids, mask, prefix)
    assert close(model(ids, mask, prefix, keep), full[keep])


def test_a_sentence_gives_the_same_logits_alone_and_in_a_padded_batch(model: Seq2Seq) -> None:
    lengths = [7, 5, 3, 2]
    ids, mask = source_batch(lengths, padding=2)
    prefix = random_prefixes(4, 7)
    batched = model(ids, mask, prefix)
    for row, length in enumerate(lengths):
        read = 7 - row
        alone = model(ids[row : row + 1, :length], mask[row : row + 1, :length], prefix[row : row + 1, :read])
        assert close(alone[0], batched[row, :read])


def test_vectors_at_padded_positions_change_nothing(model: Seq2Seq) -> None:
    ids, mask = source_batch([7, 5, 3], padding=3)
    vectors, target = model.embed_source(ids), model.embed_target(random_prefixes(3, 5))
    garbage = torch.where(mask[..., None], vectors, 100 * torch.randn(vectors.shape, generator=torch.manual_seed(1)))
    states = [model.decode(model.encode(source, mask), target).states for source in (vectors, garbage)]
    assert not torch.equal(vectors, garbage)
    assert close(model.logits(states[0]), model.logits(states[1]))


def test_a_later_prefix_token_does_not_change_an_earlier_row(model: Seq2Seq) -> None:
    ids, mask = source_batch([7, 5, 3])
    prefix = random_prefixes(3, 7)
    before = model(ids, mask, prefix)
    for position in (1, 4, 6):
        other = prefix.clone()
        other[:, position] = FIRST_PIECE + (other[:, position] - FIRST_PIECE + 1) % (TARGET_VOCAB - FIRST_PIECE)
        after = model(ids, mask, other)
        assert close(before[:, :position], after[:, :position], within=1e-6)
        assert not close(before[:, position], after[:, position])


def test_step_by_step_decoding_equals_decoding_at_once(model: Seq2Seq) -> None:
    ids, mask = source_batch([7, 5, 3])
    vectors = model.embed_target(random_prefixes(3, 7))
    memory = encoded(model, ids, mask)
    expected = model.decode(memory, vectors).states
    state = model.begin(memory)
    for position in range(7):
        assert state.position == position
        decoded, state = model.step(state, vectors[:, position : position + 1])
        assert close(decoded.states, expected[:, position : position + 1])


def test_rows_can_take_over_prefixes_and_be_selected_between_steps(model: Seq2Seq) -> None:
    ids, mask = source_batch([7, 3])
    memory = encoded(model, ids, mask)
    of_sentence = torch.tensor([0, 0, 0, 1, 1, 1])
    prefix = random_prefixes(6, 2)
    prefix[:, 1] = FIRST_PIECE + torch.arange(6)  # so that all six differ
    state = model.begin(memory).select(of_sentence)
    for token in prefix.unbind(1):
        _, state = model.step(state, model.embed_target(token[:, None]))

    follow = torch.tensor([2, 0, 0, 4, 5, 4])
    prefix = torch.cat((prefix[follow], random_prefixes(6, 2, seed=8)[:, 1:]), dim=1)
    decoded, state = model.step(state.follow(follow), model.embed_target(prefix[:, 2:]))
    expected = model.decode(memory.select(of_sentence), model.embed_target(prefix)).states
    assert close(decoded.states, expected[:, 2:])

    chosen = torch.tensor([5, 1, 1])
    prefix = torch.cat((prefix[chosen], random_prefixes(3, 2, seed=9)[:, 1:]), dim=1)
    decoded, state = model.step(state.select(chosen), model.embed_target(prefix[:, 3:]))
    expected = model.decode(memory.select(of_sentence[chosen]), model.embed_target(prefix)).states
    assert close(decoded.states, expected[:, 3:])
    assert state.position == 4


def test_tracing_changes_nothing(model: Seq2Seq) -> None:
    ids, mask = source_batch([7, 5, 3])
    vectors = model.embed_target(random_prefixes(3, 5))
    plain = model.decode(encoded(model, ids, mask), vectors)
    memory = encoded(model, ids, mask, trace=True)
    traced = model.decode(memory, vectors, trace=True)
    assert close(model.logits(plain.states), model.logits(traced.states))
    assert not plain.cross
    assert traced.cross


def test_attention_sums_to_one_over_real_positions_and_is_zero_at_padding(model: Seq2Seq) -> None:
    ids, mask = source_batch([7, 5, 3], padding=2)
    memory = encoded(model, ids, mask, trace=True)
    decoded = model.decode(memory, model.embed_target(random_prefixes(3, 5)), trace=True)
    for attention in (*decoded.cross, *memory.attention):
        hidden = ~mask[:, None, None, :].expand(attention.weights.shape)
        assert (attention.weights[hidden] == 0).all()
        assert close(attention.weights.sum(-1), torch.ones(attention.weights.shape[:3]))
    for attention in decoded.own:
        assert (attention.weights == attention.weights.tril()).all()
        assert close(attention.weights.sum(-1), torch.ones(attention.weights.shape[:3]))


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_the_named_parts_of_an_attention_layer_make_its_output(name: str) -> None:
    model = build(SPECS[name], seed=2).eval()
    for parameter in model.parameters():  # biases are zero at first and would prove nothing
        torch.nn.init.normal_(parameter, std=0.3)
    outputs: list[Tensor] = []
    layers = [layer.own for layer in model.encoder]
    layers += [part for layer in model.decoder for part in (layer.own, layer.cross)]
    for layer in layers:
        layer.register_forward_hook(lambda _module, _inputs, result: outputs.append(result[0]))
    ids, mask = source_batch([7, 5, 3])
    memory = encoded(model, ids, mask, trace=True)
    decoded = model.decode(memory, model.embed_target(random_prefixes(3, 5)), trace=True)
    traced = [*memory.attention, *(seen for pair in zip(decoded.own, decoded.cross, strict=True) for seen in pair)]
    assert len(traced) == len(outputs) == 2 + 2 * 3
    for attention, output in zip(traced, outputs, strict=True):
        made = torch.einsum("bhqk,bhkd,hde->bqe", attention.weights, attention.values, attention.projection)
        assert attention.bias is not None
        assert close(made + attention.bias, output)
        assert attention.output is not None
        assert torch.equal(attention.output, output)
    for layer, attention in zip(layers, memory.attention, strict=False):
        assert attention.inputs is not None
        dim = attention.inputs.shape[-1]
        values = layer.project(attention.inputs)[..., 2 * dim :]
        assert close(values, attention.values.transpose(1, 2).flatten(2))


def source_gradient_agrees_with_differences(model: Seq2Seq) -> bool:
    """Whether autograd's gradient of log-probabilities by source vectors is that of finite differences."""
    model.double()
    ids, mask = source_batch([5, 3])
    prefix = random_prefixes(2, 3)
    vectors = model.embed_source(ids).detach().requires_grad_()
    target = model.embed_target(prefix).detach()

    def log_probabilities(source: Tensor) -> Tensor:
        logits = model.logits(model.decode(model.encode(source, mask), target).states)
        return logits.log_softmax(-1)[:, :, FIRST_PIECE].sum(0)

    return torch.autograd.gradcheck(log_probabilities, (vectors,), raise_exception=False)


def test_the_gradient_by_source_vectors_is_the_true_one(spec: ModelSpec) -> None:
    if isinstance(spec.settings, FconvSettings):
        spec = replace(spec, settings=replace(spec.settings, scale_encoder_gradient=False))
    assert source_gradient_agrees_with_differences(build(spec, seed=11).eval())


def test_the_scaled_encoder_gradient_of_fconv_is_not_the_true_one() -> None:
    spec = replace(SPECS["fconv"], settings=replace(FCONV, scale_encoder_gradient=True))
    assert not source_gradient_agrees_with_differences(build(spec, seed=11).eval())


@pytest.mark.parametrize("sharing", ["shared", "tied", "shared_tied"])
@pytest.mark.parametrize("name", ["transformer post", "lstm ding", "lstm snell", "fconv"])
def test_the_gradient_of_a_shared_table_is_the_sum_over_its_uses(name: str, sharing: Sharing) -> None:
    settings = replace(SPECS[name].settings, embeddings=sharing)
    if not isinstance(settings, TransformerSettings):
        settings = replace(settings, hidden=settings.dim)  # a tied table is as wide as what the output layer reads
    shared = build(ModelSpec(SPECS[name].architecture, settings, TARGET_VOCAB, TARGET_VOCAB), seed=4).eval()
    uses: dict[int, list[str]] = {}
    for parameter_name, parameter in shared.named_parameters(remove_duplicate=False):
        uses.setdefault(id(parameter), []).append(parameter_name)
    assert max(map(len, uses.values())) == (3 if sharing == "shared_tied" else 2)
    separate = deepcopy(shared)
    for names in uses.values():
        for other in names[1:]:  # a layer of its own for every further use
            layer = other.rpartition(".")[0]
            setattr(separate, layer, deepcopy(separate.get_submodule(layer)))
    assert parameter_count(separate) > parameter_count(shared)
    ids, mask = source_batch([7, 5, 3])
    for each in (shared, separate):
        each(ids, mask, random_prefixes(3, 5)).log_softmax(-1)[..., FIRST_PIECE].sum().backward()
    for names in uses.values():
        total = sum(separate.get_parameter(each).grad for each in names)
        assert close(shared.get_parameter(names[0]).grad, total)


def test_shared_tables_need_one_vocabulary() -> None:
    spec = ModelSpec("transformer", replace(TRANSFORMER, embeddings="shared"), SOURCE_VOCAB, TARGET_VOCAB)
    with pytest.raises(ConfigError, match=f"not {SOURCE_VOCAB} and {TARGET_VOCAB}"):
        build(spec)


def test_the_seed_decides_the_weights(spec: ModelSpec) -> None:
    first, again, other = (build(spec, seed).state_dict() for seed in (3, 3, 5))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_dropout_works_in_training_mode_only(model: Seq2Seq) -> None:
    ids, mask = source_batch([7, 5, 3])
    prefix = random_prefixes(3, 5)
    model.eval()
    assert torch.equal(model(ids, mask, prefix), model(ids, mask, prefix))
    model.train()
    assert not torch.equal(model(ids, mask, prefix), model(ids, mask, prefix))


def test_parameter_counts_are_those_of_the_formulas() -> None:
    dim, ffn = TRANSFORMER.dim, TRANSFORMER.ffn
    attention = 4 * (dim * dim + dim)
    feed_forward = 2 * dim * ffn + dim + ffn
    layers = 2 * (attention + feed_forward + 4 * dim) + 3 * (2 * attention + feed_forward + 6 * dim)
    assert parameter_count(build(SPECS["transformer post"])) == (SOURCE_VOCAB + 2 * TARGET_VOCAB) * dim + layers
    assert parameter_count(build(SPECS["transformer shared"])) == TARGET_VOCAB * dim + layers + 4 * dim


def test_the_snell_model_has_the_printed_number_of_parameters() -> None:
    settings = replace(SNELL, dim=256, hidden=256, embeddings="shared")
    model = build(ModelSpec("lstm", settings, 8000, 8000, source_begin=True))
    assert parameter_count(model) == 8_180_544


def larger(spec: ModelSpec) -> ModelSpec:
    """The same architecture without dropout, wide enough to learn twenty sentences quickly."""
    settings = spec.settings
    if isinstance(settings, TransformerSettings):
        settings = replace(settings, dim=30, ffn=61, dropout=0.0)
    elif isinstance(settings, T5Settings):
        settings = replace(settings, dim=30, ffn=61, head_dim=8, dropout=0.0)
    elif isinstance(settings, LstmSettings):
        settings = replace(settings, dim=47, hidden=47, layer_dropout=0.0, output_dropout=0.0)
    else:
        settings = replace(settings, dim=47, hidden=47, dropout=0.0)
    return replace(spec, settings=settings)


def greedy(model: Seq2Seq, memory: Memory, longest: int) -> list[list[int]]:
    """The best token at each step, until END."""
    state = model.begin(memory)
    token = torch.full((len(memory.mask), 1), BEGIN_ID)
    tokens = []
    for _ in range(longest):
        decoded, state = model.step(state, model.embed_target(token))
        token = model.logits(decoded.states).argmax(-1)
        tokens.append(token[:, 0])
    rows = torch.stack(tokens, 1).tolist()
    return [row[: row.index(END_ID)] if END_ID in row else row for row in rows]


def test_every_model_learns_twenty_sentences_by_heart(spec: ModelSpec) -> None:
    lengths = [2 + row % 6 for row in range(20)]
    ids, mask = source_batch(lengths)
    generator = torch.Generator().manual_seed(13)
    targets = [torch.randint(FIRST_PIECE, TARGET_VOCAB, (3 + row % 5,), generator=generator) for row in range(20)]
    ending = torch.tensor([END_ID])
    begin = torch.tensor([BEGIN_ID])
    labels = torch.nn.utils.rnn.pad_sequence([torch.cat((t, ending)) for t in targets], True, PADDING_ID)
    prefix = torch.nn.utils.rnn.pad_sequence([torch.cat((begin, t)) for t in targets], True, PADDING_ID)
    keep = labels != PADDING_ID
    model = build(larger(spec), seed=1).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    losses = []
    for update in range(600):
        for group in optimizer.param_groups:
            group["lr"] = 5e-3 * min(1.0, (update + 1) / 30)
        logits = model(ids, mask, prefix, keep)
        loss = functional.cross_entropy(logits, labels[keep])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
        if losses[-1] * len(labels[keep]) < math.log(2):  # then no label has a probability below one half
            break
    assert all(later < earlier for earlier, later in pairwise([losses[0], losses[len(losses) // 2], losses[-1]]))
    model.eval()
    with torch.no_grad():
        logits = model(ids, mask, prefix, keep)
        translations = greedy(model, encoded(model, ids, mask), longest=11)
    assert (logits.argmax(-1) == labels[keep]).all()
    assert translations == [target.tolist() for target in targets]
