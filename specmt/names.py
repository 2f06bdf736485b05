"""Names that texts and documents are read by: elements of HTML, and parts of dates."""

from __future__ import annotations

from typing import Final

_BLOCKS: Final = (
    "article aside blockquote body br caption center dd div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 "
    "h5 h6 head header hr html legend li main nav ol option p pre section select table tbody td textarea tfoot th "
    "thead title tr ul"
)
BLOCKS: Final = frozenset(_BLOCKS.split())
"""HTML elements between which there are different sentences."""

ICON: Final = r"\bmaterial-(?:icons|symbols)"
"""What is in the class of an element whose text names an icon."""

ICONS: Final = ("mat-icon", "md-icon", "v-icon")
"""HTML elements whose text names an icon."""

FIELD: Final = (
    "(?:d{1,4}|D{1,4}|Do|M{1,4}|L{1,4}|y{1,4}|Y{2,4}|H{1,2}|h{1,2}|k{1,2}|m{1,2}|s{1,2}|S{1,3}|E{1,4}|[aAzZwWQ])"
)
"""A part of a pattern that dates and times are written by."""
