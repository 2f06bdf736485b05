"""Which drafters a run uses, and whether how far they look ahead is fixed or learnt."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from specmt.decoding.model import HasDrafters, Model
from specmt.decoding.policy import NO_DRAFT, Arm, BanditPolicy, Costs, FixedPolicy, Policy, expected_tokens
from specmt.options import AHEAD, DecodingOptions

FURTHEST: Final = 12
DRAFTS: Final = {(1, 0.5): (2.7, 3.9, 2.9), (1, 0.7): (2.3, 2.9, 1.9), (4, 0.7): (3.4, 4.0, 8.5)}
"""How far the autoregressive drafter goes ahead: how many paths it goes on with, and how sure of them it must be to go
on, to learn the best of. What a token costs it, in verifier calls, differs from machine to machine and from model to
model. Beside them, how many tokens calls commit, steps the drafter makes and nodes are verified, with the bundled
models."""

STAGED: Final = 0.2
STAGES: Final = (6.0, 6.5, 2.4, 3.0)
"""How sure the verifier's replica must be to go on; then how many tokens calls commit, nodes are verified, calls of its
own the replica makes and tokens are drafted for each of these, with the bundled models."""

LOOKED_UP: Final = 32
"""The block size of lookups; the masked drafter's are the one it was trained for, and half of it."""

GUESSES: Final = 7
GUESSED: Final = 1.3
"""How many continuations beam search verifies ahead, and how many steps its calls then make with the bundled models: of
the five hypotheses of a sentence and these, a product of matrices is one pass over the weights with AVX-512."""

PROMISING: Final = 2.0
UNPROMISING: Final = 1.02
"""The rate that lookups are thought to have, in rates of no draft: for sentences like earlier ones, and for others."""


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
        fixed = own_block_size(names[0], model)
    return Choice(names, fixed)


def own_block_size(name: str, model: HasDrafters) -> int:
    """Returns the block size of a drafter where nobody says another."""
    return (model.block_size if name == "masked" else None) or AHEAD[name]


def one_drafter(options: DecodingOptions, model: HasDrafters, *, own_size: bool = True) -> DecodingOptions:
    """Returns options with which one drafter, and lookups, draft every time: a sight for those who want to watch.

    :param own_size: whether the block size is the drafter's own
    """
    names = choose(options, model).names
    if options.drafter == "auto" and names:  # one is shown, where others would take turns
        shown = dict.fromkeys(name for name in names if name in (names[0], "lookup"))
        options = replace(options, drafter="+".join(shown))
    return replace(options, block_size=own_block_size(names[0], model)) if own_size and names else options


def make_policy(model: Model, options: DecodingOptions, choice: Choice) -> Policy:
    """Returns what decides who drafts and how far ahead."""
    if not choice.names:
        return FixedPolicy(NO_DRAFT)
    if choice.block_size is not None:
        fixed = [
            Arm(number, options.block_size or own_block_size(name, model)) for number, name in enumerate(choice.names)
        ]
        return FixedPolicy(fixed[0], fixed[-1] if choice.looks_up else fixed[0])
    costs = costs_of(model)
    calibration = model.calibration
    arms = [arm for number, name in enumerate(choice.names) for arm in _arms(number, name, model, options)]

    def prior(arm: Arm, rows: int, promising: bool) -> float:
        if arm.drafter is None:
            return 1.0
        name = choice.names[arm.drafter]
        if name == "lookup":
            return PROMISING if promising else UNPROMISING
        if name == "self":
            tokens, ahead, calls, drafts = STAGES
            # It reads less for a step; a row is computed like the verifier's.
            replica = (model.replica_cost or 1.0) + costs.row * ((1 + drafts) * rows - 1)
            return costs.rate(tokens, rows, ahead, calls * (replica + costs.draft * drafts * costs.step(rows)))
        acceptance = calibration.acceptance if name == "masked" and calibration is not None else ()
        if arm.margin > 0.0:
            tokens, steps, ahead = DRAFTS[arm.paths, arm.margin]
            return costs.rate(tokens, rows, ahead, costs.draft * steps * costs.step(rows))
        drafting = costs.block * costs.step(rows) if name == "masked" else costs.draft * arm.ahead * costs.step(rows)
        return costs.rate(expected_tokens(arm.ahead, acceptance), rows, arm.ahead, drafting)

    return BanditPolicy(arms, prior)


def looks_ahead(options: DecodingOptions, model: HasDrafters) -> bool:
    """Returns whether beam search may use the autoregressive drafter."""
    return options.drafter == "autoregressive" or (options.drafter == "auto" and "autoregressive" in model.drafters)


def make_beam_policy(model: Model, options: DecodingOptions) -> Policy:
    """Returns what decides when beam search looks ahead."""
    costs, width = costs_of(model), options.beam_size

    def prior(arm: Arm, rows: int, promising: bool) -> float:
        if arm.drafter is None:
            return 1.0
        rows *= width
        return costs.rate(GUESSED, rows, arm.ahead / width, costs.draft * costs.step(rows))

    return BanditPolicy([Arm(0, GUESSES)], prior)


def costs_of(model: Model) -> Costs:
    """Returns the simple model of what iterations cost."""
    return Costs(row=model.row_cost)


def _arms(number: int, name: str, model: HasDrafters, options: DecodingOptions) -> list[Arm]:
    """Returns the arms of a drafter."""
    is_tree = options.tree == "best-first"
    if name == "autoregressive":
        chains, trees = not is_tree, is_tree or "auto" in options.drafters
        return [Arm(number, FURTHEST, margin, paths) for paths, margin in DRAFTS if (trees if paths > 1 else chains)]
    if name == "lookup":
        return [Arm(number, LOOKED_UP)]
    if name == "self":
        return [Arm(number, FURTHEST, STAGED)]
    own = own_block_size(name, model)
    return [Arm(number, ahead) for ahead in sorted({own} if is_tree else {own, (own + 1) // 2})]
