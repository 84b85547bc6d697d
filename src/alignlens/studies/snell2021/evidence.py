"""What the claims are tested on: agreements, generated tasks and counts, as numbers that know how much they vary."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from alignlens.metrics.sampled import Draws, Sampled
from alignlens.studies.snell2021.agreements import read_agreements
from alignlens.studies.snell2021.counts import read_counts
from alignlens.studies.snell2021.layout import DEV
from alignlens.studies.snell2021.toys import Toys, read_toys
from alignlens.studies.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from alignlens.results.scores import Results
    from alignlens.studies.snell2021.agreements import Agreement
    from alignlens.studies.snell2021.counts import Counts


@dataclass(frozen=True)
class Evidence:
    """Everything that was read, and how texts and seeds are drawn again."""

    agreements: Sequence[Agreement] = ()
    toys: Toys = field(default_factory=Toys)
    counts: Sequence[Counts] = ()
    draws: Draws = field(default_factory=Draws)

    @classmethod
    def of(cls, results: Results) -> Evidence:
        """Returns the evidence of a results folder."""
        manifest = results.manifest
        agreements = read_agreements(manifest)
        interval = manifest.interval or next((each.interval for each in agreements if each.interval), {})
        return cls(agreements, read_toys(manifest), read_counts(manifest), Draws(**interval))

    @property
    def empty(self) -> bool:
        """Whether nothing was found."""
        return not (self.agreements or self.toys.names() or self.counts)

    @property
    def intervals(self) -> list[str]:
        """How the intervals of agreements were drawn, in words."""
        stated = [each.interval for each in self.agreements if each.interval]
        return list(
            dict.fromkeys(
                f"{one['level']:g} % bootstrap interval over texts ({one['samples']} samples, seed {one['seed']})"
                for one in stated
            )
        )

    def tally(self) -> Tally:
        """Returns an empty tally at the level of the intervals."""
        return Tally(self.draws.level)

    def dev(self) -> list[Agreement]:
        """Returns the agreements on dev texts."""
        return [each for each in self.agreements if each.split == DEV]

    def sampled(self, agreement: Agreement, quantity: str) -> Sampled | None:
        """Returns an agreement with what it is on resampled texts."""
        return agreement.sampled(self.draws, quantity)

    def share(self, name: str, held: int, runs: int) -> Sampled:
        """Returns a share of runs, with shares that would as well give such a number of runs.

        Drawn from the posterior of a share after these runs, under Jeffreys' prior: unlike runs that
        are drawn again, it leaves room after three runs of three.
        """
        samples = self._generator(name).beta(held + 0.5, runs - held + 0.5, size=self.draws.samples)
        return Sampled(held / runs, samples)

    def median(self, name: str, numbers: Sequence[float]) -> Sampled:
        """Returns the median over seeds, which are drawn again; of one seed nothing is known."""
        values = np.asarray(numbers, dtype=float)
        return Sampled(float(np.median(values)), self._drawn(name, values, lambda rows: np.median(rows, axis=1)))

    def mean(self, name: str, numbers: Sequence[float]) -> Sampled:
        """Returns the mean over seeds in the same way; numbers under one name share the seeds."""
        values = np.asarray(numbers, dtype=float)
        return Sampled(float(values.mean()), self._drawn(name, values, lambda rows: rows.mean(axis=1)))

    def _drawn(
        self,
        name: str,
        numbers: NDArray[np.float64],
        measure: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    ) -> NDArray[np.float64]:
        if len(numbers) < 2:
            return np.full(self.draws.samples, np.nan)
        chosen = self._generator(name).integers(0, len(numbers), size=(self.draws.samples, len(numbers)))
        return measure(numbers[chosen])

    def _generator(self, name: str) -> np.random.Generator:
        return np.random.default_rng([self.draws.seed, zlib.crc32(name.encode())])
