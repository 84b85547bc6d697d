"""What the paper calls things: tasks, quantities and the tables they stand in."""

from __future__ import annotations

from dataclasses import dataclass

ACCURACY, BLEU = "accuracy", "bleu"
AGREEMENT, KENDALL = "agreement", "kendall"
MEASURED, REACHED, STAR = "A", "xi", "star"
"""What a column has: an agreement, the performance at which a second run passes it, the best performance."""
RANDOM = "random"
DEV, TRAIN = "dev", "train"

# Quantities, u first. Of two orders the released code computes the second, under the heading of the first.
ATTENTION_UNIFORM, ATTENTION_PROBE, SALIENCY_UNIFORM = "alpha,beta_uf", "alpha,beta", "Delta,beta_uf"
PROXY_DEFINED, PROXY_RELEASED = "beta_uf,beta_px", "beta_px,beta_uf"
LOGISTIC_DEFINED, LOGISTIC_RELEASED = "beta_uf,beta_log", "beta_log,beta_uf"
FROZEN = "alpha,alpha_fr"
ORDERS = {
    PROXY_RELEASED: ("β_uf,β_px", "as released"),
    PROXY_DEFINED: ("β_uf,β_px", "as defined"),
    LOGISTIC_RELEASED: ("β_uf,β_log", "as released"),
    LOGISTIC_DEFINED: ("β_uf,β_log", "as defined"),
}
_SYMBOLS = {"alpha": "α", "alpha_fr": "α_fr", "beta": "β", "beta_uf": "β_uf", "Delta": "Δ"}
_FUNCTIONS = {(MEASURED, AGREEMENT): "A", (MEASURED, KENDALL): "τ", (REACHED, AGREEMENT): "ξ", (REACHED, KENDALL): "ξ"}

#: Our datasets, without hyphens and underscores, and what the paper calls them.
TASKS = {
    "imdb": "IMDB",
    "imdbsmall": "IMDB",
    "yelp": "Yelp",
    "agnews": "AG News",
    "20news": "20 NG",
    "sst": "SST",
    "amazon": "Amzn",
    "multi30k": "Multi30k",
    "iwslt14": "IWSLT14",
}
TRANSLATION = ("Multi30k", "IWSLT14", "News It-Pt", "News En-Nl", "News En-Pt")


def printed_task(name: str) -> str | None:
    """Returns what the paper calls a dataset of ours; None if it is not in the paper."""
    return TASKS.get(name.replace("-", "").replace("_", ""))


def split_of(text: str) -> str | None:
    """Returns whether a text is for development or the first part of the training text; None for any other."""
    return DEV if text == DEV else TRAIN if text.startswith(TRAIN) else None


@dataclass(frozen=True)
class Column:
    """A column of a table of agreements."""

    what: str
    quantity: str = ""

    def heading(self, kind: str = AGREEMENT) -> str:
        """Returns what stands above it."""
        if self.what == STAR:
            return "ξ*"
        if self.quantity == RANDOM:
            return "Â" if kind == AGREEMENT else "τ̂"
        inside, order = ORDERS.get(self.quantity, (symbols(self.quantity), ""))
        if kind == KENDALL:
            order = ""  # tau has no order
        return f"{_FUNCTIONS[self.what, kind]}({inside}){f' {order}' if order else ''}"


def symbols(quantity: str) -> str:
    """Returns a quantity in the paper's letters."""
    return ",".join(_SYMBOLS.get(part, part) for part in quantity.split(","))


@dataclass(frozen=True)
class Layout:
    """A table of the paper: which numbers it has, of which text, and how they are written."""

    number: str
    title: str
    columns: tuple[Column, ...]
    split: str = DEV
    measure: str = ACCURACY
    kind: str = AGREEMENT
    digits: int = 2
    scale: float = 1.0
    unit: str = "%"


def _measured(*quantities: str) -> tuple[Column, ...]:
    return tuple(Column(MEASURED, quantity) for quantity in quantities)


def _reached(*quantities: str) -> tuple[Column, ...]:
    return (*(Column(REACHED, quantity) for quantity in quantities), Column(STAR))


_THREE = (ATTENTION_UNIFORM, PROXY_RELEASED, SALIENCY_UNIFORM)
_FOUR = (*_THREE, ATTENTION_PROBE)
_BOTH_ORDERS = (ATTENTION_UNIFORM, PROXY_RELEASED, PROXY_DEFINED, SALIENCY_UNIFORM)
_SHORT = (*_measured(*_BOTH_ORDERS, RANDOM), *_reached(*_THREE))
_FULL = (*_measured(*_BOTH_ORDERS, ATTENTION_PROBE, RANDOM), *_reached(*_FOUR))
_TAUS = (*_measured(*_THREE, RANDOM), *_reached(*_THREE))

#: The tables of agreements by the stem of their files.
LAYOUTS = {
    "table2": Layout(
        "2",
        "agreement, and how well a second run does when it agrees as much; rounded",
        (*_measured(*_BOTH_ORDERS, ATTENTION_PROBE, RANDOM), *_reached(ATTENTION_UNIFORM, ATTENTION_PROBE)),
        digits=0,
    ),
    "table3": Layout("3", "Kendall's tau on the dev text", _TAUS, kind=KENDALL, unit="τ × 100; ξ in %"),
    "table4": Layout(
        "4", "Kendall's tau on the dev text, ξ by BLEU", _TAUS, measure=BLEU, kind=KENDALL, unit="τ × 100; ξ in BLEU"
    ),
    "table5": Layout("5", "agreement on the dev text", _FULL),
    "table6": Layout("6", "agreement on the dev text, ξ by BLEU", _FULL, measure=BLEU, unit="A in %; ξ in BLEU"),
    "table7": Layout("7", "agreement on the training text", _FULL, split=TRAIN),
    "table8": Layout(
        "8", "agreement on the training text, ξ by BLEU", _SHORT, split=TRAIN, measure=BLEU, unit="A in %; ξ in BLEU"
    ),
    "table10": Layout(
        "10", "attention trained on top of a frozen random probe", _measured(FROZEN, ATTENTION_UNIFORM), digits=0
    ),
    "table11": Layout(
        "11",
        "the proxy beside logistic regression",
        _measured(PROXY_RELEASED, LOGISTIC_RELEASED, PROXY_DEFINED, LOGISTIC_DEFINED),
        scale=0.01,
        unit="fractions, as in print",
    ),
}
#: A task stands in these tables only if it was asked for this.
NEEDED = {"table10": FROZEN, "table11": LOGISTIC_RELEASED}
