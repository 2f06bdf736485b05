"""What decoding asks of a model (specmt.models.hub.Model): `ModelError` says that a part is absent or damaged."""

from __future__ import annotations

from collections.abc import Mapping
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
    def calibrations(self) -> Mapping[str, Calibration]:
        """How far drafters can be trusted, of those that were measured."""

    @property
    def costs(self) -> dict[str, dict[float, list[float]]]:
        """Seconds of calls, by network and tokens, as far as they were measured; whoever measures writes there."""

    @property
    def costs_key(self) -> str:
        """What those depend on."""

    def network(self, name: str) -> DraftNetwork | None:
        """Returns the network of a drafter, if there is one."""

    def price(self, name: str) -> float:
        """Returns the seconds that making the network of a drafter takes, or the replica; 0 once it is there."""

    def share(self, name: str) -> float:
        """Returns the share of the bytes of a call of the verifier that one of a drafter, or of the replica, reads."""

    @property
    def replica(self) -> Scorer:
        """The verifier's decoder in a cheaper format, over the verifier's own caches; where there is none, itself."""

    @property
    def shortlist(self) -> Shortlist:
        """What may be said of a sentence."""

    @property
    def draft_shortlist(self) -> Shortlist | None:
        """What drafts are chosen from; without a shortlist, all that may be said."""

    @property
    def shortlists_pay(self) -> bool:
        """Whether less is computed where a sentence may say less."""

    @property
    def alignment_heads(self) -> AlignmentHeads:
        """The heads that alignments are read from."""
