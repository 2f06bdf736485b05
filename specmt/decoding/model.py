"""What decoding asks of a model (specmt.models.hub.Model)."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from specmt.engine.protocols import DraftNetwork, Scorer, Verifier
from specmt.options import AlignmentHeads, Calibration
from specmt.text.pieces import PieceModel
from specmt.text.shortlist import Shortlist


class HasDrafters(Protocol):
    """What must be known of a model to know who drafts."""

    @property
    def drafters(self) -> tuple[str, ...]:
        """The names of the network drafters that it has."""

    @property
    def block_size(self) -> int | None:
        """The block size that its masked drafter was trained for."""


class Model(HasDrafters, Protocol):
    """A loaded model."""

    @property
    def path(self) -> Path:
        """The folder that it was loaded from."""

    @property
    def pieces(self) -> PieceModel:
        """What turns text into ids and back."""

    @property
    def verifier(self) -> Verifier:
        """The network that decides what is said."""

    @property
    def drafter(self) -> DraftNetwork | None:
        """The masked drafter, if there is one."""

    @property
    def autoregressive(self) -> DraftNetwork | None:
        """The autoregressive drafter, if there is one."""

    @property
    def replica(self) -> Scorer:
        """The verifier's decoder in a cheaper format, over the verifier's own caches; where there is none, itself."""

    @property
    def replica_cost(self) -> float | None:
        """About what a step of the replica costs, in steps of the verifier; ``None`` where there is none."""

    @property
    def row_cost(self) -> float:
        """About what a further token in a step costs, in steps of one token."""

    @property
    def shortlist(self) -> Shortlist:
        """What may be said of a sentence.

        :raises ModelError: there is none.
        """

    @property
    def draft_shortlist(self) -> Shortlist | None:
        """What drafts are chosen from; without a shortlist, all that may be said."""

    @property
    def shortlists_pay(self) -> bool:
        """Whether less is computed where a sentence may say less."""

    @property
    def alignment_heads(self) -> AlignmentHeads:
        """The heads that alignments are read from."""

    @property
    def calibration(self) -> Calibration | None:
        """Of the masked drafter, if it was measured."""
