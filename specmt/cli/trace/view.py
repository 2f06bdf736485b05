"""What terminal and page say alike: numbers, signs and what came of it all."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from specmt.decoding.record import Draft, Record, Step, Tried
from specmt.options import DecodingOptions
from specmt.text.parts import ATTEMPTS

MARKS: Final = {"accepted": "✓", "rejected": "✗", "unseen": "–", "corrected": "→", "added": "+"}
"""How verdicts and origins are shown without colours."""


def percent(probability: float) -> str:
    """Returns a probability as it is shown; nothing for NaN, and only what is exactly so is 0% or 100%."""
    if math.isnan(probability):
        return ""
    if 0.0 < probability < 0.01:
        return "<1%"
    return ">99%" if 0.99 < probability < 1.0 else f"{probability:.0%}"


def chance(draft: Draft, trial: Tried | None) -> str:
    """Returns what the drafter gave a draft; p and q if it was tested."""
    if trial is None:
        return percent(math.exp(draft.log_prob))
    return f"p {percent(trial.draft)} q {percent(trial.verifier)}"


def rounds(record: Record) -> Iterator[tuple[int, Step, Step | None]]:
    """Yields iterations, numbered from 1, with the next one."""
    steps = record.iterations
    return zip(range(1, len(steps) + 1), steps, [*steps[1:], None], strict=True)


def figures(record: Record, options: DecodingOptions) -> Iterator[tuple[str, str]]:
    """Yields names and values."""
    if record.text not in ("", record.translation.text):
        yield "Written", record.text
    yield "Attempt", f"{record.attempt}: {ATTEMPTS[record.attempt]}"
    words, others = record.line.split(), record.text.split()
    if record.alignment:
        yield "Alignment", "  ".join(f"{words[one]}–{others[other]}" for one, other in record.alignment)
    stats = record.stats
    calls = f"{stats['verifier_calls']} for {stats['tokens']} tokens"
    yield "Verifier calls", f"{calls}: {stats['mean_accepted_length']:.2f} a call"
    if drafted := stats["drafted"]:
        accepted = stats["accepted"]
        yield "Drafts", f"{drafted} drafted, {accepted} accepted ({percent(accepted / drafted)})"
    method = "token by token"
    if options.strategy == "speculative" and options.drafters != ("none",):
        drafter, block_size = "+".join(options.drafters), options.block_size or "auto"
        method = f"speculative, drafter {drafter}, tree {options.tree}, block size {block_size}"
    yield "Method", method
    output = f"lossy: β {options.beta} with τ {options.tolerance:g} may differ from greedy decoding"
    if options.samples:
        output = f"sampled: distributed exactly as the model's own samples at temperature {options.temperature:g}"
    elif record.lossless:
        output = "lossless: exactly what greedy decoding says"
    yield "Output", output


def legend(steps: Sequence[Step]) -> list[tuple[str, str, str]]:
    """Returns signs, what they mean, and the verdict or origin that they stand for, if any."""
    signs = [("+", "the model's own token", "added")]
    if any(step.nodes for step in steps):
        signs = [
            ("✓", "accepted draft", "accepted"),
            ("✗", "rejected draft", "rejected"),
            ("→", "the model's own token instead", "corrected"),
            ("+", "its own after all drafts", "added"),
            ("–", "draft not looked at", "unseen"),
        ]
    signs.append(("1 2 …", "the model's best tokens", ""))
    if any(choice.ruled_out for step in steps for _, place, _ in step.checks for choice in step.verified[place]):
        signs.append(("[BLANK]", "ruled out by τ", ""))
    if any(step.trials for step in steps):
        signs += [("p", "drafter", ""), ("q", "model", ""), ("r", "residual q − p", "")]
    return [*signs, ("·", "goes on without a space", "")]
