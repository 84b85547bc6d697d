"""A device that is not the processor, pretended on the processor: code written for one fails here as it would there.

Its tensors say that they are on ``meta`` and keep a tensor of the processor inside, which every operation goes to; so
what depends on numbers runs too, and the results are real. An operation that mixes tensors of both raises, as on CUDA:
that is what becomes of a tensor made without ``device=``. So do ``numpy()`` and ``data_ptr()`` without ``cpu()``, and
operations that only exist for the processor. Operations are counted, and how often the processor waited for numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map

_THERE = torch.device("meta")
_MIXED = ("aten::_to_copy", "aten::copy_", "aten::_pack_padded_sequence")  # moves; lengths are read on the processor
_FETCHED = "fetched"
_WAITS = ("aten::_local_scalar_dense", "aten::nonzero", "aten::equal", "aten::is_nonzero", _FETCHED)
_FORBIDDEN = ("mkldnn", "mkl", "quantized", "_for_cpu")  # namespaces and endings of operations for processors


class WrongDeviceError(Exception):
    """Something that would not work on another device than the processor."""


class Elsewhere(Tensor):
    """A tensor of the pretended device."""

    inside: Tensor

    @staticmethod
    def __new__(cls, inside: Tensor) -> Elsewhere:
        """Returns a tensor that looks like one on the device."""
        made = Tensor._make_wrapper_subclass(
            cls,
            inside.shape,
            strides=inside.stride(),
            storage_offset=inside.storage_offset(),
            dtype=inside.dtype,
            device=_THERE,
        )
        made.inside = inside
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Refuses: outside of the mode nobody would notice what comes from the processor."""
        raise WrongDeviceError(f"{function} outside of the pretended device")


class PretendedDevice:
    """A context in which ``meta`` is the pretended device; counts what it was asked for."""

    def __init__(self) -> None:
        self.operations: Counter[str] = Counter()
        self._modes = (_Operations(self.operations), _Functions(self.operations))

    def __enter__(self) -> PretendedDevice:
        # Tensors made in inference mode cannot be wrapped.
        self._patched = mock.patch.object(torch, "inference_mode", torch.no_grad)
        self._patched.start()
        for mode in self._modes:
            mode.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self._patched.stop()
        for mode in reversed(self._modes):
            mode.__exit__(*problem)

    @property
    def waits(self) -> int:
        """How often the processor had to wait until the device was done."""
        return sum(self.operations[name] for name in _WAITS)

    @property
    def launches(self) -> int:
        """How many operations the device was given."""
        return sum(self.operations.values()) - self.operations[_FETCHED]


def moved(model: nn.Module) -> nn.Module:
    """Puts a model on the device; returns it."""
    there: dict[int, Any] = {}  # tied weights stay tied
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                made = there.setdefault(
                    id(parameter), nn.Parameter(Elsewhere(parameter.detach()), requires_grad=parameter.requires_grad)
                )
                module._parameters[name] = made
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = there.setdefault(id(buffer), Elsewhere(buffer))
    return model


class _Operations(TorchDispatchMode):
    """Sends every operation to the tensors inside."""

    def __init__(self, counted: Counter[str]) -> None:
        super().__init__()
        self._counted = counted

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = dict(kwargs or {}), function._schema.name
        tensors = [each for each in tree_flatten((args, kwargs))[0] if isinstance(each, Tensor)]
        here = [each for each in tensors if not isinstance(each, Elsewhere)]
        asked = kwargs.get("device")
        made_there = asked is not None and torch.device(asked) == _THERE
        some_there = len(here) < len(tensors)
        if not some_there and not made_there:
            return function(*args, **kwargs)
        if any(name.split("::")[0] == each or name.endswith(each) for each in _FORBIDDEN):
            raise WrongDeviceError(f"{name} exists for processors only")
        if some_there and name not in _MIXED and any(each.dim() for each in here):
            raise WrongDeviceError(f"{name} mixes tensors of the device and of the processor")
        self._counted[name] += 1
        if asked is not None:
            kwargs["device"] = "cpu"
        found = function(*tree_map(_inside, args), **tree_map(_inside, kwargs))
        fetched = name == "aten::copy_" and not isinstance(args[0], Elsewhere)
        if fetched or (asked is not None and not made_there):
            self._counted[_FETCHED] += 1
            return args[0] if fetched else found
        if name == "aten::_pack_padded_sequence":  # its lengths stay on the processor
            return Elsewhere(found[0]), found[1]
        found = tree_map(lambda each: Elsewhere(each) if isinstance(each, Tensor) else each, found)
        return return_and_correct_aliasing(function, args, kwargs, found) if some_there else found


class _Functions(TorchFunctionMode):
    """What never reaches the operations."""

    def __init__(self, counted: Counter[str]) -> None:
        super().__init__()
        self._counted = counted

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        own = args[0] if args and isinstance(args[0], Elsewhere) else None
        if own is not None and function in (Tensor.numpy, Tensor.data_ptr, Tensor.__array__):
            raise WrongDeviceError(f"{function.__name__} of a tensor of the device: move it with cpu() first")
        if own is not None and function == Tensor.tolist:
            return own.cpu().tolist()
        made: Callable[..., Any] | None = None
        if function is torch.tensor and torch.device(kwargs.get("device") or "cpu") == _THERE:
            made = torch.tensor
        elif own is not None and function == Tensor.new_tensor and kwargs.get("device") is None:
            kwargs.setdefault("dtype", own.dtype)
            args, made = args[1:], torch.tensor
        if made is None:
            return function(*args, **kwargs)
        self._counted[function.__name__] += 1
        kwargs.pop("device", None)
        return Elsewhere(made(*args, **kwargs))


def _inside(value: Any) -> Any:
    return value.inside if isinstance(value, Elsewhere) else value
