"""One or several training processes, as ``torchrun`` started them."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed

from alignlens.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import nn


@dataclass(frozen=True)
class Processes:
    """This process among all of them: its rank, its device, and how they communicate."""

    rank: int
    count: int
    device: torch.device

    @property
    def leads(self) -> bool:
        """Whether this process writes files and logs."""
        return self.rank == 0

    def check_share(self, accumulation: int) -> None:
        """Raises unless all processes get equally many of an update's micro-batches."""
        if accumulation % self.count:
            raise ConfigError(
                f"training.accumulation: {accumulation} micro-batches cannot be shared by {self.count} processes; "
                f"make it a multiple of {self.count}."
            )

    def add_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Gives every process the sum of all gradients; parameters without any stay without."""
        if self.count == 1:
            return
        having = torch.tensor([parameter.grad is not None for parameter in parameters], device=self.device).float()
        distributed.all_reduce(having)
        used = [parameter for parameter, number in zip(parameters, having.tolist(), strict=True) if number]
        gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in used]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        distributed.all_reduce(flat)
        totals = torch.split_with_sizes(flat, [each.numel() for each in used])
        for parameter, total in zip(used, totals, strict=True):
            parameter.grad = total.view_as(parameter)

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
    """Yields this process among those of ``torchrun``, or alone; one GPU each where there are GPUs.

    When all went well, processes that do not lead end here, at once: they have nothing left to do or to write. Python's
    own way out, so soon after the last message, now and then met a thread of gloo and aborted (5 of 100 trainings).
    """
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
    processes = Processes(rank, count, device)
    try:
        yield processes
        if not processes.leads:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
    finally:
        distributed.destroy_process_group()
