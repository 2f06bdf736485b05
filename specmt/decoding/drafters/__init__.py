"""Drafters, by name: `make_drafter` makes what the options ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from specmt.decoding.drafters.autoregressive import AutoregressiveDrafter
from specmt.decoding.drafters.base import CombinedDrafter, Drafter
from specmt.decoding.drafters.lookup import LookupDrafter
from specmt.decoding.drafters.masked import MaskedDrafter
from specmt.decoding.drafters.staged import StagedDrafter
from specmt.decoding.memory import TranslationMemory
from specmt.decoding.shape import Chain, make_shape
from specmt.decoding.shortlist import Shortlist
from specmt.errors import ModelError
from specmt.options import DecodingOptions

if TYPE_CHECKING:
    from specmt.models.hub import Model

__all__ = ["FACTORIES", "CombinedDrafter", "Drafter", "Factory", "make_drafter"]

Factory = Callable[["Model", int, DecodingOptions, TranslationMemory | None], Drafter]
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
    if model.drafter is None:
        raise ModelError(
            f"{model.path}: the model has no masked drafter; train one with `specmt train drafter`, "
            "or decode without it."
        )
    return MaskedDrafter(model.drafter, capacity, make_shape(options), _draft_shortlist(model, options))


def _autoregressive(model: Model, capacity: int, options: DecodingOptions, _: TranslationMemory | None) -> Drafter:
    if model.autoregressive is None:
        raise ModelError(
            f"{model.path}: the model has no autoregressive drafter; train one with "
            "`specmt train drafter --kind autoregressive`, or decode without it."
        )
    shape, shortlist = make_shape(options), _draft_shortlist(model, options)
    return AutoregressiveDrafter(model.autoregressive, capacity, shape, shortlist)


def _self(model: Model, capacity: int, options: DecodingOptions, _: TranslationMemory | None) -> Drafter:
    shape = make_shape(options)
    if model.replica_cost is None or not isinstance(shape, Chain):
        return AutoregressiveDrafter(model.fast_verifier, capacity, shape)
    inner = None if model.autoregressive is None else _autoregressive(model, capacity, options, None)
    return StagedDrafter(lambda: model.replica, inner, None if model.folder.shortlist is None else model.shortlist)


def _lookup(model: Model, _: int, __: DecodingOptions, memory: TranslationMemory | None) -> Drafter:
    return LookupDrafter(memory or TranslationMemory(), model.pieces, model.verifier.prefixes.start)


def _draft_shortlist(model: Model, options: DecodingOptions) -> Shortlist | None:
    """Returns what a network chooses drafts from.

    Exact output does not depend on it: where it saves no work there is no need of it. Lossy output and samples do.
    """
    needed = model.backend.shortlists_pay or options.samples or not options.lossless
    return model.draft_shortlist if needed else None


FACTORIES: Final[dict[str, Factory]] = {
    "masked": _masked,
    "autoregressive": _autoregressive,
    "self": _self,
    "lookup": _lookup,
}
