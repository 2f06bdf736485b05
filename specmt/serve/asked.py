"""What is asked of the service, and what it answers."""

from __future__ import annotations

from typing import Final, NamedTuple

from specmt.formats.document import TagRules
from specmt.serve.clients import Account
from specmt.serve.dispatch import Gone
from specmt.serve.glossaries import Terms
from specmt.serve.languages import Detected
from specmt.serve.room import Claim
from specmt.serve.sureness import Sureness

Pair = tuple[str, str]
"""A source and a target language."""


class Answer(NamedTuple):
    """A text translated."""

    text: str
    detected: Detected | None = None
    """The language that it was found to be in, where that was asked."""
    sureness: Sureness | None = None
    """How sure it is, where that was asked."""


class Caller(NamedTuple):
    """Who asks."""

    client: str
    account: Account
    gone: Gone
    claim: Claim

    @property
    def owner(self) -> str:
        """Whose glossaries it has: those of its key; without keys, all have the same."""
        return self.account.name


class Manner(NamedTuple):
    """How texts are to be translated."""

    kind: str = "text"
    """What they are written in (:data:`specmt.serve.documents.KINDS`)."""

    tags: TagRules = TagRules()
    terms: Terms | None = None
    """The glossary of their languages."""

    splits: bool = True
    """Whether lines are cut into sentences."""

    scores: bool = False
    """Whether it is asked how sure texts are."""

    @property
    def identity(self) -> list[object]:
        """What answers depend on."""
        tags, terms = self.tags, self.terms
        sets = [sorted(each) for each in (tags.ignored, tags.inside, tags.splitting)]
        return [self.kind, *sets, tags.detects, terms and terms.digest, self.splits]


PLAIN: Final = Manner()
