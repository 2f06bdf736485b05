"""Drafters by name: which of them options mean for a model, how far they may look ahead, and what makes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from specmt.decoding.drafters.autoregressive import AutoregressiveDrafter
from specmt.decoding.drafters.base import Arm, Drafter
from specmt.decoding.drafters.lookup import LookupDrafter
from specmt.decoding.drafters.masked import MaskedDrafter
from specmt.decoding.drafters.self import StagedDrafter
from specmt.decoding.model import HasDrafters, Model
from specmt.decoding.sample import sampling
from specmt.decoding.translation_memory import TranslationMemory
from specmt.errors import ModelError
from specmt.options import AHEAD, DecodingOptions

__all__ = ["FURTHEST", "Choice", "Drafter", "arms_of", "choose", "fixed_arm", "make_drafter", "one_drafter"]

NETWORKS: Final[dict[str, tuple[type[MaskedDrafter | AutoregressiveDrafter], str]]] = {
    "masked": (MaskedDrafter, "specmt train drafter"),
    "autoregressive": (AutoregressiveDrafter, "specmt train drafter --kind autoregressive"),
}
"""The drafters with a network of their own, and what trains one."""

NODES: Final = 24
"""The nodes of a best-first tree where nobody says how many."""

SHORT: Final = 3
FURTHEST: Final = 12
"""How far ahead at most those go that stop where they are unsure: one sentence asks for no less. Of many side by side
each waits for the longest draft of all, so that short ones may be worth more. On simulated machines (tests/machines.py)
half or twice as short changes 1%, half as far costs 3% of one sentence's time, twice as far changes nothing."""

SPARSE: Final = Arm(ahead=FURTHEST, paths=4, nodes=11)
"""A tree that a drafter grows which goes ahead step by step. There, half as many paths and nodes change 1%, twice as
many cost 3%, and none 5%."""


class Choice(NamedTuple):
    """What the options mean for a model."""

    names: tuple[str, ...]
    """The drafters; none for decoding without drafts."""

    block_size: int | None
    """The block size K where it is fixed: 0 without drafters; ``None`` where it is learnt."""

    @property
    def looks_up(self) -> bool:
        """Whether drafts are copied from earlier text."""
        return "lookup" in self.names


def choose(options: DecodingOptions, model: HasDrafters) -> Choice:
    """Returns which drafters the options mean, and how far they look ahead.

    Lossy output and samples depend on what is drafted, which must depend on nothing but the sentence: there the drafter
    is the masked one and the block size its own. Exact output does not, so that what brings most tokens a second is
    learnt.
    """
    if options.strategy != "speculative" or options.drafter == "none":
        return Choice((), 0)
    exact = options.lossless and not options.samples
    names = tuple(sorted((name for name in options.drafters if name != "auto"), key="lookup".__eq__))  # those come last
    if "auto" in options.drafters:
        if not exact:
            names = () if options.samples and "masked" not in model.drafters else ("masked",)
        else:
            own = tuple(name for name in model.drafters if name != "self" or options.tree == "chain")
            known = names if names or own else ("lookup",)
            # Whoever says how far ahead wants drafts, always: the first drafter makes them.
            names = (*(own if options.block_size is None else own[:1]), *known)
    if not names:
        return Choice((), 0)
    fixed = options.block_size
    if fixed is None and (not exact or options.drafters == ("self",)):
        fixed = _own_size(names[0], model)
    return Choice(names, fixed)


def one_drafter(options: DecodingOptions, model: HasDrafters, *, own_size: bool = True) -> DecodingOptions:
    """Returns options with which one drafter, and lookups, draft every time: a sight for those who want to watch.

    :param own_size: whether the block size is the drafter's own
    """
    names = choose(options, model).names
    if options.drafter == "auto" and names:  # one is shown, where others would take turns
        shown = dict.fromkeys(name for name in names if name in (names[0], "lookup"))
        options = replace(options, drafter="+".join(shown))
    return replace(options, block_size=_own_size(names[0], model)) if own_size and names else options


def fixed_arm(number: int, name: str, model: HasDrafters, options: DecodingOptions) -> Arm:
    """Returns how a drafter drafts where nothing is learnt."""
    ahead = options.block_size or _own_size(name, model)
    if options.samples:
        return Arm(number, ahead, options.width if options.tree == "sampled" else 1)
    return Arm(number, ahead) if name in ("self", "lookup") else _treed(Arm(number, ahead), options)


def arms_of(number: int, name: str, model: HasDrafters, options: DecodingOptions) -> list[Arm]:
    """Returns how a drafter may draft where it is learnt what is best."""
    own = _own_size(name, model)
    if name == "masked":
        sizes = {own} if options.tree == "best-first" else {own, (own + 1) // 2}
        return [_treed(Arm(number, ahead), options) for ahead in sorted(sizes)]
    if name == "autoregressive" and options.tree == "best-first":
        return [_treed(Arm(number, FURTHEST), options)]
    if name == "autoregressive":
        trees = [SPARSE._replace(drafter=number)] if "auto" in options.drafters else []
        return [Arm(number, SHORT), Arm(number, FURTHEST), *trees]
    return [Arm(number, FURTHEST if name == "self" else own)]


def make_drafter(
    name: str, model: Model, capacity: int, options: DecodingOptions, memory: TranslationMemory | None = None
) -> Drafter:
    """Returns the drafter of a name.

    :param capacity: the most sentences side by side
    :param memory: what lookups copy from
    :raises ModelError: the model does not have it.
    """
    if name == "lookup":
        return LookupDrafter(memory or TranslationMemory(), model.pieces, model.verifier.prefixes.start)
    if name == "self":
        return StagedDrafter(
            lambda: model.replica,
            make_drafter("autoregressive", model, capacity, options) if "autoregressive" in model.drafters else None,
            lambda: None if model.draft_shortlist is None else model.shortlist,
            lambda: model.price("self"),
        )
    kind, training = NETWORKS[name]
    if name not in model.drafters:
        raise ModelError(
            f"{model.path}: the model has no {name} drafter; train one with `{training}`, or decode without it."
        )
    # Exact output does not depend on what drafts are chosen from; lossy output and samples do.
    needed = model.shortlists_pay or options.samples or not options.lossless
    return kind(
        lambda: model.network(name),
        capacity,
        lambda: model.draft_shortlist if needed else None,
        sampling=sampling(options) if options.samples else None,
        price=lambda: model.price(name),
        calibration=model.calibrations.get(name),
    )


def _own_size(name: str, model: HasDrafters) -> int:
    """Returns the block size of a drafter where nobody says another."""
    return (model.block_size if name == "masked" else None) or AHEAD[name]


def _treed(arm: Arm, options: DecodingOptions) -> Arm:
    """Returns an arm that drafts trees if the options ask for them."""
    return arm._replace(paths=options.beta, nodes=options.nodes or NODES) if options.tree == "best-first" else arm
