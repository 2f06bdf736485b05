"""What sites Markdown is written for: the dialect that a page is in, by the nearest configuration of a site."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

DIALECTS: Final = ("auto", "gfm", "mkdocs", "docusaurus", "vitepress", "hugo", "jekyll", "myst", "pandoc")
"""``auto``: by the nearest configuration; without one, all that can be told from text without one."""

_FILES: Final = (
    ("mkdocs", ("mkdocs.yml", "mkdocs.yaml", "zensical.toml")),
    ("docusaurus", ("docusaurus.config.js", "docusaurus.config.ts", "docusaurus.config.mjs")),
    ("vitepress", (".vitepress",)),
    ("hugo", ("hugo.toml", "hugo.yaml", "hugo.json", "config/_default", "archetypes")),
    ("myst", ("myst.yml", "_toc.yml", "conf.py")),
    ("pandoc", ("_quarto.yml",)),
    ("jekyll", ("_config.yml",)),
)


@cache
def dialect_in(folder: Path) -> str:
    """Returns the dialect of the site that a folder is in, or nothing; no further up than the repository."""
    for dialect, names in _FILES:
        if any((folder / name).exists() for name in names):
            return dialect
    if folder.parent == folder or (folder / ".git").exists():
        return ""
    return dialect_in(folder.parent)
