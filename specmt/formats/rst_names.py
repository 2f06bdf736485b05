"""What in directives and fields of reStructuredText is text, by their names in docutils, Sphinx and its extensions."""

from __future__ import annotations

import re
from typing import Final

_DOCINFO_NAMES: Final = (
    "author authors organization contact address version revision status date copyright orphan nocomments no-search "
    "tocdepth nosearch template"
)
DOCINFO: Final = frozenset(_DOCINFO_NAMES.split())
"""Fields at the beginning that say something about the document."""

NO_TEXT: Final = re.compile(r":(?:type|rtype|vartype|meta|cvar type)\b")
"""Fields that are code."""

_BODIES_NAMES: Final = (
    "attention caution danger error hint important note tip warning seealso todo epigraph highlights "
    "pull-quote compound glossary replace header footer tabs tab-set hlist parsed"
)
BODIES: Final = frozenset(_BODIES_NAMES.split())
"""Directives without an argument."""

_TITLED_NAMES: Final = (
    "admonition topic sidebar rubric centered contents table list-table csv-table tab tab-item group-tab "
    "dropdown card grid-item-card details collapse"
)
TITLED: Final = frozenset(_TITLED_NAMES.split())
"""Directives of which the argument is text."""

VERSIONS: Final = frozenset(("versionadded", "versionchanged", "versionremoved", "deprecated"))
"""Directives of which the first word is a version, and text follows."""

LEFT: Final = re.compile(
    r"(?:code|\braw|math|include|literal|highlight|(?<!para)graph|diag|uml|mermaid|plot|ipython|jupyter|test|prompt|console|"
    r"shell|output|production|csv|role|^meta$|^index$|auto|unicode|^date$|yaml|json|sql|snippet|exec|chart)"
)
"""Directives of which the content is code or data."""

TEXT_OPTION: Final = re.compile(r":(?:alt|caption|subtitle):\s+")
"""Options that are text."""

HEADER: Final = re.compile(r":header:\s+")
"""The option that is the first row of a table of values."""

DIALECT: Final = re.compile(r":(?:delim:\s*(?P<delimiter>[^\w\s\"])\Z|(?:delim|escape|quote|keepspace):)")
"""The options that say how values are parted; without a delimiter in one that is not read."""
