"""Where the time of a method goes on one core, and which share of the core's matrix-product limit each step reaches.

``attribution.py --profile`` prints it. Times are CPU times, the shortest of a few passes, so that a busy machine hardly
matters. Operations are counted from what a step was given, as the compiled steps do them: open units only, and only
positions that a start reaches.
"""

from __future__ import annotations

import ctypes
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from alignlens.attribution.gradients import compiled

_PASSES = 7
_EVERYTHING_ELSE = "everything else"
_TITLES = {
    "feed_back": "backwards through feed-forward nets",
    "attention_back": "backwards through attention",
    "top_back": "top of the decoder",
    "changes": "lowest attention forwards",
    "dot_all": "gradients times embeddings",
    "dot_each": "gradients times embeddings",
    "norm_back": "backwards through final norms",
}


class _Meter(TorchDispatchMode):
    """Adds up CPU seconds and floating-point operations by step."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: dict[str, float] = defaultdict(float)
        self.operations: dict[str, float] = defaultdict(float)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        started = time.thread_time()
        found = func(*args, **(kwargs or {}))
        spent = time.thread_time() - started
        count = flop_registry.get(func.overloadpacket)
        title = "products in torch" if count else f"torch: {func.overloadpacket.__name__}"
        self.seconds[title] += spent
        if count:
            self.operations[title] += count(*args, **(kwargs or {}), out_val=found)
        return found

    def around(self, name: str, step: Callable[..., object]) -> Callable[..., object]:
        """Returns a compiled step that is measured."""

        def run(*arguments: Any) -> object:
            started = time.thread_time()
            found = step(*arguments)
            self.seconds[_TITLES[name]] += time.thread_time() - started
            self.operations[_TITLES[name]] += _operations(name, *(getattr(one, "_obj", one) for one in arguments))
            return found

        return run


def tell_steps(work: Callable[[], object], limit_of: int = 256) -> None:
    """Prints a table of the steps of some work on one thread: share of time, GFLOP/s, share of the limit."""
    library = compiled.library()
    kept = {name: getattr(library, name) for name in compiled.STEPS} if library is not None else {}
    best: dict[str, float] = {}
    operations: dict[str, float] = {}
    limit, whole = 0.0, float("inf")
    try:
        for _ in range(_PASSES):
            limit = max(limit, _limit(limit_of))
            meter = _Meter()
            for name, step in kept.items():
                setattr(library, name, meter.around(name, step))
            started = time.thread_time()
            with meter:
                work()
            whole, operations = min(whole, time.thread_time() - started), meter.operations
            best = {name: min(seconds, best.get(name, seconds)) for name, seconds in meter.seconds.items()}
    finally:
        for name, step in kept.items():
            setattr(library, name, step)
    small = [name for name, seconds in best.items() if name not in operations and seconds < whole / 100]
    best[_EVERYTHING_ELSE] = whole - sum(seconds for name, seconds in best.items() if name not in small)
    print(f"one thread, limit {limit:.0f} GFLOP/s; {sum(operations.values()) / 1e9:.2f} GFLOP in {whole:.3f} CPU s")
    for name in sorted(set(best) - set(small), key=lambda name: -best[name]):
        rate = operations.get(name, 0.0) / best[name] / 1e9
        shown = f"{rate:6.1f} GFLOP/s {100 * rate / limit:4.0f} % of the limit" if name in operations else ""
        print(f"  {name:38s} {100 * best[name] / whole:5.1f} % of the time {shown}")
    total = sum(operations.values()) / whole / 1e9
    print(f"  {'all of it':38s} 100.0 % of the time {total:6.1f} GFLOP/s {100 * total / limit:4.0f} % of the limit")


def _limit(size: int) -> float:
    """Returns the GFLOP/s of the best of many square products that lie in the caches of a core."""
    left, right, out = (torch.randn(size, size) for _ in range(3))
    shortest = float("inf")
    for _ in range(30):
        started = time.perf_counter()
        torch.mm(left, right, out=out)
        shortest = min(shortest, time.perf_counter() - started)
    return 2 * size**3 / shortest / 1e9


def _operations(name: str, block: compiled.Block, *rest: Any) -> float:
    """Returns the floating-point operations of the products of a step."""
    layer = rest[0]
    if name == "feed_back":
        return _feed(block, layer)
    if name == "attention_back":
        return block.rows * _attention(block, layer, want_query=bool(rest[3].value))
    if name == "top_back":
        feed = 4.0 * layer.feed.dim * float(_open(block, layer.feed)[:, _places(block)].sum())
        both = [layer.cross] if layer.alone else [layer.cross, layer.own]
        return feed + block.rows * sum(_alone(block, one, one is layer.own) for one in both)
    if name == "changes":
        count, dim = layer.positions, layer.dim
        return block.rows * 2.0 * (3 * count * dim**2 + 3 * count**2 * dim + (count * dim) ** 2)
    if name == "norm_back":
        return 0.0
    positions, dim = rest[0].value, rest[1].value
    return block.rows * 2.0 * block.starts * positions * dim * (positions if name == "dot_all" else 1)


def _places(block: compiled.Block) -> Any:
    return np.ctypeslib.as_array((ctypes.c_long * block.starts).from_address(block.places))


def _pairs(block: compiled.Block, positions: int, triangle: bool) -> float:
    """Returns how many pairs of position and start there are where the latter reaches the former."""
    return float((_places(block) + 1).sum()) if triangle else positions * block.starts


def _open(block: compiled.Block, feed: compiled.Feed) -> Any:
    """Returns how many units are open, (row, position)."""
    size = feed.positions * feed.units
    slopes = (ctypes.c_float * (block.rows * size)).from_address(feed.slopes + 4 * block.row * size)
    return (np.ctypeslib.as_array(slopes).reshape(block.rows, feed.positions, feed.units) != 0).sum(2)


def _feed(block: compiled.Block, feed: compiled.Feed) -> float:
    starts = np.full(feed.positions, block.starts)
    if feed.triangle:
        starts = (_places(block)[None] >= np.arange(feed.positions)[:, None]).sum(1)
    return 4.0 * feed.dim * float((starts * _open(block, feed)).sum())


def _attention(block: compiled.Block, layer: compiled.Attention, want_query: bool) -> float:
    dim, keys, heads, starts = layer.dim, layer.keys, layer.heads, block.starts
    pairs, used = _pairs(block, layer.queries, layer.triangle), layer.queries
    if layer.triangle:
        used = int(_places(block)[-1]) + 1
    count = pairs * dim**2 + 2.0 * pairs * keys * dim + keys * starts * dim**2
    longest = max(layer.queries, keys)
    if starts >= heads and starts * (dim - heads * longest) > dim:  # as transformer.c decides
        count += used * dim**2 + pairs * heads * keys * dim
        count += want_query * (keys * dim**2 + pairs * heads * keys * dim)
    else:
        count += pairs * keys * dim + keys * starts * dim**2 + want_query * (pairs * keys * dim + pairs * dim**2)
    return 2.0 * count


def _alone(block: compiled.Block, layer: compiled.Attention, causal: bool) -> float:
    dim, starts = layer.dim, block.starts
    pairs = _pairs(block, layer.keys, causal)
    return 2.0 * (4.0 * starts * dim**2 + 2.0 * starts * layer.keys * dim + 2.0 * pairs * layer.heads * dim)
