"""Drafters, by name: `make_drafter` makes what the options ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from specmt.decoding.drafters.autoregressive import AutoregressiveDrafter
from specmt.decoding.drafters.base import Drafter
from specmt.decoding.drafters.lookup import LookupDrafter
from specmt.decoding.drafters.masked import MaskedDrafter
from specmt.decoding.drafters.self import StagedDrafter
from specmt.decoding.model import Model
from specmt.decoding.shape import make_shape
from specmt.decoding.translation_memory import TranslationMemory
from specmt.errors import ModelError
from specmt.options import DecodingOptions
from specmt.text.shortlist import Shortlist

__all__ = ["FACTORIES", "Drafter", "Factory", "make_drafter"]

Factory = Callable[[Model, int, DecodingOptions, TranslationMemory | None], Drafter]
"""Makes a drafter for a model, a number of rows, options and what lookups copy from."""


def make_drafter(
    name: str, model: Model, capacity: int, options: DecodingOptions, memory: TranslationMemory | None = None
) -> Drafter:
    """Returns the drafter of a name.

    :param capacity: the most sentences side by side
    :raises ModelError: the model does not have it.
    """
    return FACTORIES[name](model, capacity, options, memory)


def _masked(model: Model, capacity: int, options: DecodingOptions, _: TranslationMemory | None) -> Drafter:
    if "masked" not in model.drafters:
        raise ModelError(
            f"{model.path}: the model has no masked drafter; train one with `specmt train drafter`, "
            "or decode without it."
        )
    return MaskedDrafter(lambda: model.drafter, capacity, make_shape(options), _draft_shortlist(model, options))


def _autoregressive(model: Model, capacity: int, options: DecodingOptions, _: TranslationMemory | None) -> Drafter:
    if "autoregressive" not in model.drafters:
        raise ModelError(
            f"{model.path}: the model has no autoregressive drafter; train one with "
            "`specmt train drafter --kind autoregressive`, or decode without it."
        )
    shape, shortlist = make_shape(options), _draft_shortlist(model, options)
    return AutoregressiveDrafter(lambda: model.autoregressive, capacity, shape, shortlist)


def _self(model: Model, capacity: int, options: DecodingOptions, _: TranslationMemory | None) -> Drafter:
    chains = replace(options, tree="chain")  # of both
    inner = _autoregressive(model, capacity, chains, None) if "autoregressive" in model.drafters else None
    return StagedDrafter(
        lambda: model.replica, inner, lambda: None if model.draft_shortlist is None else model.shortlist
    )


def _lookup(model: Model, _: int, __: DecodingOptions, memory: TranslationMemory | None) -> Drafter:
    return LookupDrafter(memory or TranslationMemory(), model.pieces, model.verifier.prefixes.start)


def _draft_shortlist(model: Model, options: DecodingOptions) -> Callable[[], Shortlist | None]:
    """Returns what says what a network chooses drafts from, when something is drafted.

    Exact output does not depend on it: where it saves no work there is no need of it. Lossy output and samples do.
    """
    needed = model.shortlists_pay or options.samples or not options.lossless
    return lambda: model.draft_shortlist if needed else None


FACTORIES: Final[dict[str, Factory]] = {
    "masked": _masked,
    "autoregressive": _autoregressive,
    "self": _self,
    "lookup": _lookup,
}
