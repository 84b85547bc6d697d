"""One or several training processes, as ``torchrun`` started them."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from alignlens.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn


@dataclass(frozen=True)
class Processes:
    """This process among all of them: who it is, where it computes, and what they tell each other."""

    rank: int
    count: int
    device: torch.device

    @property
    def leads(self) -> bool:
        """Whether this process writes files and speaks to people."""
        return self.rank == 0

    def check_share(self, accumulation: int) -> None:
        """Raises unless all processes get equally many of an update's micro-batches."""
        if accumulation % self.count:
            raise ConfigError(
                f"training.accumulation: {accumulation} micro-batches cannot be shared by {self.count} processes; "
                f"make it a multiple of {self.count}."
            )

    def wrap(self, model: nn.Module) -> nn.Module:
        """Returns the module to call in training: it averages gradients over processes if there are several."""
        # Buffers are caches that grow with what a process has seen, so they may differ.
        return DistributedDataParallel(model, broadcast_buffers=False) if self.count > 1 else model

    def exchange(self, wrapped: nn.Module, now: bool) -> AbstractContextManager[Any]:
        """Returns a block whose backward pass averages gradients over the processes, or only adds them up here."""
        return nullcontext() if now or not isinstance(wrapped, DistributedDataParallel) else wrapped.no_sync()

    def total(self, *numbers: float) -> list[float]:
        """Returns each number summed over all processes."""
        if self.count == 1:
            return list(numbers)
        tensor = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        distributed.all_reduce(tensor)
        return [float(number) for number in tensor]

    def from_leader(self, value: Any) -> Any:
        """Returns the leader's value (plain data) in every process."""
        if self.count == 1:
            return value
        box = [value]
        distributed.broadcast_object_list(box, src=0)
        return box[0]


@contextmanager
def joined_processes(threads: int) -> Iterator[Processes]:
    """Yields this process among those of ``torchrun``, or alone; one GPU each where there are GPUs."""
    torch.set_num_threads(threads)
    count = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("RANK", "0"))
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    if count == 1:
        yield Processes(0, 1, device)
        return
    distributed.init_process_group("nccl" if gpu else "gloo")
    try:
        yield Processes(rank, count, device)
    finally:
        distributed.destroy_process_group()
