"""Work on several cores: each has its own share of the sentences and uses one thread.

Threads that share every matrix product wait for each other after each one; threads with work of their own do not, and
the numbers do not depend on how many there are. The interpreter's lock does not matter: the library releases it while
it computes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Protocol, TypeVar

import torch

Job = TypeVar("Job")
Result = TypeVar("Result")


class Run(Protocol):
    """Applies a function to jobs and yields the results in the order of the jobs."""

    def __call__(self, work: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[Result]:
        """Yields what ``work`` made of each job."""


@contextmanager
def side_by_side(workers: int, stopped: Event) -> Iterator[Run]:
    """Yields a function that runs jobs on this many threads; ``stopped`` tells running jobs to give up."""
    if workers == 1:
        yield lambda work, jobs: map(work, jobs)
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    pool = ThreadPoolExecutor(workers, "attribution")
    try:
        yield lambda work, jobs: _ahead(pool, work, jobs, workers + 1)
    finally:
        stopped.set()
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def _ahead(
    pool: ThreadPoolExecutor, work: Callable[[Job], Result], jobs: Iterable[Job], ahead: int
) -> Iterator[Result]:
    """Yields results in order, with only a few jobs begun: memory does not grow with the number of jobs."""
    begun: deque[Future[Result]] = deque()
    for job in jobs:
        begun.append(pool.submit(work, job))
        if len(begun) >= ahead:
            yield begun.popleft().result()
    while begun:
        yield begun.popleft().result()
