# ruff: noqa: E501  (documents are shown as they are)
"""Markdown as sites write it: what is text, what is left and why, and that another parser sees the same blocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it.helpers import parseLinkDestination

from specmt.check.checker import Pair, check_pair
from specmt.check.rules import Rules
from specmt.cli.documents import translate_tasks
from specmt.cli.options import DOCUMENT_NAMES, DocumentOptions
from specmt.cli.tasks import Task
from specmt.documents import translate_documents
from specmt.formats import read_document, shape
from specmt.formats.anchors import fragments, rebase, slug_of
from specmt.formats.commonmark import parser
from specmt.formats.commonmark_inline import InlineParser, destination
from specmt.formats.dialects import dialect_in
from specmt.formats.document import Document, FormatOptions, Part, unread
from specmt.formats.shape import Checked, blocks_of, compare
from specmt.options import DecodingOptions
from specmt.project import Settings
from specmt.types import Tagged
from tests.documents import Aligned, Shouting, fill, run, texts_of, with_capitals

STAND_IN = re.compile(r"\{t+x*\d+\}")


def read(source: str, name: str = "a.md", /, **options: Any) -> Document:
    return read_document(source.encode(), name, "markdown", FormatOptions(**options))


def shouted(source: str, name: str = "a.md", /, **options: Any) -> str:
    """Returns a page with its texts in capitals, where it stays itself without them."""
    document = read(source, name, **options)
    assert document.write({}, print) == source.encode()
    (done,) = translate_documents(Shouting(), [(name, document)], DecodingOptions())
    assert not done.summary.warnings
    return done.data.decode()


CASES = {
    "alert": ("> [!NOTE]\n> Das Haus.\n", "> [!NOTE]\n> DAS HAUS.\n"),
    "callout": ("> [!tip]- Ein Titel\n> Das Haus.\n", "> [!tip]- EIN TITEL\n> DAS HAUS.\n"),
    "admonition with attributes": (
        '!!! info "Titel" {: .a #b}\n    Das Haus.\n\n=== "Da" { .a }\n\n    Haus\n',
        '!!! info "TITEL" {: .a #b}\n    DAS HAUS.\n\n=== "DA" { .a }\n\n    HAUS\n',
    ),
    "admonition": ('!!! info "Titel"\n    Das Haus.\n', '!!! info "TITEL"\n    DAS HAUS.\n'),
    "collapsed": ('??? note "Titel"\n\n    Das Haus.\n\n    - ein\n', '??? note "TITEL"\n\n    DAS HAUS.\n\n    - EIN\n'),
    "nested admonition": (
        '!!! note\n    Das\n\n    !!! tip "Da"\n        Haus.\n\n    ```\n    so\n    ```\nUnd\n',
        '!!! note\n    DAS\n\n    !!! tip "DA"\n        HAUS.\n\n    ```\n    so\n    ```\nUND\n',
    ),
    "tabs": ('=== "Linux"\n\n    Das Haus.\n\n        so\n', '=== "LINUX"\n\n    DAS HAUS.\n\n        so\n'),
    "code elsewhere": ("Das\n\n    so\n", "DAS\n\n    so\n"),
    "directive": (":::note\nDas Haus.\n:::\n", ":::note\nDAS HAUS.\n:::\n"),
    "label": (":::tip[Ein Titel]\n\nDas Haus.\n\n:::\n", ":::tip[EIN TITEL]\n\nDAS HAUS.\n\n:::\n"),
    "title": ("::: warning Ein Titel\nDas\n:::\n", "::: warning EIN TITEL\nDAS\n:::\n"),
    "pandoc": ('::: {.note title="Titel"}\nDas\n:::\n', '::: {.note title="TITEL"}\nDAS\n:::\n'),
    "colons in a list": ("- Das\n\n  :::tip\n  Haus\n  :::\n", "- DAS\n\n  :::tip\n  HAUS\n  :::\n"),
    "definition": ("Das Wort\n: Der Sinn\n\n    Mehr\n", "DAS WORT\n: DER SINN\n\n    MEHR\n"),
    "definition of an admonition": (":   !!! note\n\n        Der Sinn\n\n    Mehr\n", ":   !!! note\n\n        DER SINN\n\n    MEHR\n"),
    "definition of a comment": ("<!-- a -->\n\n:   Der Sinn\n\n    - Mehr\n", "<!-- a -->\n\n:   DER SINN\n\n    - MEHR\n"),
    "attributes": ("[Haus](a.md){: .btn}\n\n## Über {#id k=\"v\"}\n", "[HAUS](a.md){: .btn}\n\n## ÜBER {#id k=\"v\"}\n"),
    "attributes below": ("Das Haus.\n{: .info}\n", "DAS HAUS.\n{: .info}\n"),
    "attributes of an image": ("Das ![Haus](a.png){ width=3 } ist\n", "DAS ![HAUS](a.png){ width=3 } IST\n"),
    "tasks": ("- [ ] Das Haus\n- [x] Da\n", "- [ ] DAS HAUS\n- [x] DA\n"),
    "math": ("Das $a_b$ und $$c_d$$ hier.\n\n$$\n\\text{Haus}\n$$\n", "DAS $a_b$ UND $$c_d$$ HIER.\n\n$$\n\\text{Haus}\n$$\n"),
    "math in brackets": ("Das \\(a+b\\) und\n\n\\[\nx\n\\]\n", "DAS \\(a+b\\) UND\n\n\\[\nx\n\\]\n"),
    "money": ("Von $5 und $6 hier\n", "VON $5 UND $6 HIER\n"),
    "captions of code": (
        "```{toctree}\n:maxdepth: 2\n:caption: Das Haus\n\nso\nDas Dach <so>\n```\n\n- a\n\n  ```{image} a.png\n  :alt: Ein Bild\n  ```\n",
        "```{toctree}\n:maxdepth: 2\n:caption: DAS HAUS\n\nso\nDAS DACH <so>\n```\n\n- A\n\n  ```{image} a.png\n  :alt: EIN BILD\n  ```\n",
    ),
    "remarks of kramdown": (
        "{::comment}\nso\n\nso\n{:/comment}\n\nDas {::nomarkdown}\n",
        "{::comment}\nso\n\nso\n{:/comment}\n\nDAS {::nomarkdown}\n",
    ),
    "math in a sentence": (
        "Das \\[ x = \\text{wenn gilt} \\] und \\(\\frac{eins}{zwei}\\)\n",
        "DAS \\[ x = \\text{wenn gilt} \\] UND \\(\\frac{eins}{zwei}\\)\n",
    ),
    "square brackets": ("Das \\[oder dies\\] da\n", "DAS [ODER DIES] DA\n"),
    "brackets": ("Das \\(im Haus\\) da\n", "DAS (IM HAUS) DA\n"),
    "wiki": ("Das [[Haus]] und [[Haus|das *Haus*]] ![[b.png]]\n", "DAS [[Haus]] UND [[Haus|DAS *HAUS*]] ![[b.png]]\n"),
    "contents": ("[[_TOC_]]\n\n[TOC]\n\n{:toc}\n\nDas\n", "[[_TOC_]]\n\n[TOC]\n\n{:toc}\n\nDAS\n"),
    "icon": (":material-check: Das ist :smile: da.\n", ":material-check: DAS IST :smile: DA.\n"),
    "badge": ("[![Haus](a.svg)](b)\n", "[![HAUS](a.svg)](b)\n"),
    "reference image": ("![Das Haus][h] und ![h]\n\n[h]: a.png\n", "![DAS HAUS][h] UND ![h]\n\n[h]: a.png\n"),
    "footnote": ("Das Haus.[^1] Da\n\n[^1]: Eine Note\n\n    Mehr\n", "DAS HAUS.[^1] DA\n\n[^1]: EINE NOTE\n\n    MEHR\n"),
    "macro": ('Der {{cssxref("&lt;a&gt;")}} ist\n', 'DER {{cssxref("&lt;a&gt;")}} IST\n'),
    "macro lines": ("{% tip %}\nDas Haus.\n{% endtip %}\n", "{% tip %}\nDAS HAUS.\n{% endtip %}\n"),
    "shortcodes": (
        '{{< a text="Das" b="so" >}}\n\nEin {{< a text=\'Haus\' b="so" >}} da\n',
        '{{< a text="DAS" b="so" >}}\n\nEIN {{< a text=\'HAUS\' b="so" >}} DA\n',
    ),
    "raw": ("{% raw %}\nDas {{ so }}\n\n    so\n{% endraw %}\nDas\n", "{% raw %}\nDAS {{ so }}\n\n    so\n{% endraw %}\nDAS\n"),
    "shortcode": ('{{% tab title="Da" %}}\nDas\n{{< a\n b="c" >}}\n', '{{% tab title="DA" %}}\nDAS\n{{< a\n b="c" >}}\n'),
    "a tag alone": ('<span class="a">\n[Haus](a.md){: .b }\n</span>\n', '<span class="a">\n[HAUS](a.md){: .b }\n</span>\n'),
    "Markdown in HTML": ('<div markdown="1">\n[Haus](a.md){: .b }\n</div>\n', '<div markdown="1">\n[HAUS](a.md){: .b }\n</div>\n'),
    "items in a cell": ("|a|b|\n|-|-|\n|c|<ul><li>Das</li><li>Haus</li></ul>|\n", "|A|B|\n|-|-|\n|C|<ul><li>DAS</li><li>HAUS</li></ul>|\n"),
    "text between macros": ("{{< tab >}}Das Haus{{< /tab >}}\n", "{{< tab >}}DAS HAUS{{< /tab >}}\n"),
    "texts of a macro": ('{{< figure src="a" alt="Das" caption="Da &amp; so" >}}\n', '{{< figure src="a" alt="DAS" caption="DA &amp; SO" >}}\n'),
    "entities": ("Das &lt; da &mdash; b &amp; c\n\n`&lt;`\n", "DAS &lt; DA &mdash; B &amp; C\n\n`&lt;`\n"),
    "escapes for math": ("Von 5 \\$ und `a`\n\nDa 6 \\$.\n", "VON 5 \\$ UND `a`\n\nDA 6 \\$.\n"),
    "options of a directive": (":::{tip} Da\n:class: b\n:title: So\nDas\n:::\n", ":::{tip} DA\n:class: b\n:title: SO\nDAS\n:::\n"),
    "tabs of VitePress": (":::tabs\n== Das Haus\nDa\n== Hier\nSo\n:::\n", ":::tabs\n== DAS HAUS\nDA\n== HIER\nSO\n:::\n"),
    "text directive": ('Das :abbr[Wort]{title="a"} hier\n', 'DAS :abbr[WORT]{title="a"} HIER\n'),
    "a power alone": ("1^a^\n\nDas\n", "1^a^\n\nDAS\n"),
    "scripts": ("CO~2~ hat 5 m^2^ im 2^ten^ Haus\n", "CO~2~ HAT 5 m^2^ IM 2^ten^ HAUS\n"),
    "footnote in a text": ("Das Haus^[Eine *Note* da.], so\n", "DAS HAUS^[EINE *NOTE* DA.], SO\n"),
    "macro in a target": ("[Haus]({{ a.b }}/c) da\n", "[HAUS]({{ a.b }}/c) DA\n"),
    "html": ("<details>\n<summary>Mehr</summary>\n\nDas\n\n</details>\n", "<details>\n<summary>MEHR</summary>\n\nDAS\n\n</details>\n"),
    "pre": ("<div><pre>\nso\n\nso\n</pre></div>\n\nDas\n", "<div><pre>\nso\n\nso\n</pre></div>\n\nDAS\n"),
    "inline html": ('Das <img alt="Haus" src=a> <kbd>so</kbd> da\n', 'DAS <img alt="HAUS" src=a> <kbd>so</kbd> DA\n'),
    "unclosed": ("Das <kbd>Haus und *da*\n", "DAS <kbd>HAUS UND *DA*\n"),
    "break in a cell": (
        "| a |\n|-|\n| <a href=x>Das Haus</a><br>da |\n", "| A |\n|-|\n| <a href=x>DAS HAUS</a><br>DA |\n"
    ),
    "break in emphasis": ("*Das  \nHaus* da\n", "*DAS  \nHAUS* DA\n"),
    "element that only ends": ("</ins>\n*Das*\n", "</ins>\n*DAS*\n"),
    "empty cells": ("| | Da |\n|-|-|\n| | Haus |\n", "| | DA |\n|-|-|\n| | HAUS |\n"),
    "sentences a line": ("Das Haus.\nEs ist rot.\nJa!\n", "DAS HAUS.\nES IST ROT.\nJA!\n"),
    "zero byte": ("Das \0 Haus\n", "DAS \0 HAUS\n"),
    "returns": ("Das\rHaus und\r\nDa ist\r\n\r\n- ja\r\n", "DAS HAUS UND\r\nDA IST\r\n\r\n- JA\r\n"),
    "role": ("Das {ref}`Haus <da>` ist\n", "DAS {ref}`HAUS <da>` IST\n"),
    "myst": ("```{note} Titel\n:class: a\nDas\n```\n\n```{code} a\nso\n```\n", "```{note} TITEL\n:class: a\nDAS\n```\n\n```{code} a\nso\n```\n"),
    "label of MyST with a space": ("(das Haus)=\n\n# Das Haus\n", "(das Haus)=\n\n# DAS HAUS\n"),
    "directive behind code in an item": ("1. ```\n   da\n   ```\n\n```{note}\nDas\n```\n", "1. ```\n   da\n   ```\n\n```{note}\nDAS\n```\n"),
    "glossary of MyST": (
        "```{glossary}\n:sorted:\n\nDas Haus\n  Ein *Bau*.\n\n  - mit Dach\nDa\n\n    Dort.\n: Hier.\n```\n\n{term}`Das Haus`\n",
        "```{glossary}\n:sorted:\n\nDas Haus\n  EIN *BAU*.\n\n  - MIT DACH\nDa\n\n    DORT.\n: HIER.\n```\n\n{term}`Das Haus`\n",
    ),
    "badge of VitePress": ('# Das <Badge type="tip" text="neu" />\n\n<Badge text=\'seit\'/>\n', '# DAS <Badge type="tip" text="NEU" />\n\n<Badge text=\'SEIT\'/>\n'),
    "texts of attributes": (
        '# Das Haus { data-toc-label="Haus" #a }\n\n![Da](a.png){ title="Ein Haus" label="so" }\n',
        '# DAS HAUS { data-toc-label="HAUS" #a }\n\n![DA](a.png){ title="EIN HAUS" label="so" }\n',
    ),
    "icon in strong text": ("__:a-b: Das Haus__\n", "__:a-b: DAS HAUS__\n"),
    "front matter of Windows": ("---\r\nid: a\r\n---\r\n\r\n`b` Haus\r\n", "---\r\nid: a\r\n---\r\n\r\n`b` HAUS\r\n"),
    "note with a name": ("Das.[^na]\n\n[^na]: Da\n", "DAS.[^na]\n\n[^na]: DA\n"),
    "entities alone": ("&amp; [1](a) &nbsp;\n", "&amp; [1](a) &nbsp;\n"),
    "changes": (
        "Das {--Da--} {~~ist~>war~~}{>>so<<} {++neue++} {==Haus==}\n",
        "DAS {--Da--} {~~ist~>war~~}{>>so<<} {++NEUE++} {==HAUS==}\n",
    ),
    "mark of changes": ("Das {==Haus==}{>>so<<}. Da\n", "DAS {==HAUS==}{>>so<<}. DA\n"),
    "span": (
        'Das [Haus]{.a} und [*da*]{: .b title="Titel"} [c]{.d}\n\n[c]: e\n',
        'DAS [HAUS]{.a} UND [*DA*]{: .b title="TITEL"} [c]{.d}\n\n[c]: e\n',
    ),
    "attributes between spaces": ("Das $$a$$ {#b} ist da\n", "DAS $$a$$ {#b} IST DA\n"),
    "attributes of an icon": ('Das :a-b:{ .c title="Haus" } da\n', 'DAS :a-b:{ .c title="HAUS" } DA\n'),
    "math of GitLab": ("Das $`a`$ ist, und $`b`$ da\n", "DAS $`a`$ IST, UND $`b`$ DA\n"),
    "pages of Microsoft": (
        '> [!div class="a"]\n> [Das](a.md)\n\n[!INCLUDE [so](b.md)]\nDa [!INCLUDE [so](b.md)] ist\n\n'
        ':::image type="a" alt-text="Haus" b="c":::\n\n::: moniker range=">=a"\n',
        '> [!div class="a"]\n> [DAS](a.md)\n\n[!INCLUDE [so](b.md)]\nDA [!INCLUDE [so](b.md)] IST\n\n'
        ':::image type="a" alt-text="HAUS" b="c":::\n\n::: moniker range=">=a"\n',
    ),
    "math that goes on": ("Das $$\nso\n$$\n\nHaus $$a$$\n", "DAS $$\nso\n$$\n\nHAUS $$a$$\n"),
    "wiki links with options": ("[[a.png|so|so]] das [[b|]] und [[c|da]]\n", "[[a.png|so|so]] DAS [[b|]] UND [[c|DA]]\n"),
    "hashes before attributes": ("## Das Haus ## {#a}\n\nDa # {b\n", "## DAS HAUS ## {#a}\n\nDA # {B\n"),
    "texts of a macro in lines": (
        '{{< figure\n  src="a"\n  caption="Das"\n>}}\n', '{{< figure\n  src="a"\n  caption="DAS"\n>}}\n'
    ),
    "admonitions that are fences": (
        '```admonish tip title="Das"\nHaus `so`\n```\n\n~~~ad-note\ntitle: Da\nicon: so\n- ist\n~~~\n\n```adb\nso\n```\n',
        '```admonish tip title="DAS"\nHAUS `so`\n```\n\n~~~ad-note\ntitle: DA\nicon: so\n- IST\n~~~\n\n```adb\nso\n```\n',
    ),
    "image in a line": (
        '- Das Haus\n<img alt="Da" src="abcdefgh">\n\nHier\n<img src="b">\nist so\n',
        '- DAS HAUS\n<img alt="DA" src="abcdefgh">\n\nHIER\n<img src="b">\nIST SO\n',
    ),
    "raw in a text": (
        "{% raw %}{{ so }}{% endraw %} da\n\nDas {% comment %}so{% endcomment %} hier\n\n{{< a\n b=c >}} Haus\n",
        "{% raw %}{{ so }}{% endraw %} DA\n\nDAS {% comment %}so{% endcomment %} HIER\n\n{{< a\n b=c >}} HAUS\n",
    ),
    "ids of blocks": ("Das Haus ^ein-haus\n\n- Da ^b\n\n^allein\n", "DAS HAUS ^ein-haus\n\n- DA ^b\n\n^allein\n"),
    "bars that are no table": ("||Das||\n", "||DAS||\n"),
    "selector": ("/// html | div.haus\nDas\n///\n", "/// html | div.haus\nDAS\n///\n"),
    "keys": ("Das ++ctrl+a++ da\n", "DAS ++ctrl+a++ DA\n"),
    "empty link": ("Das [](#a) ist\n", "DAS [](#a) IST\n"),
    "break of MyST": ('+++ {"so": 1}\n\nDas\n', '+++ {"so": 1}\n\nDAS\n'),
    "table of MyST": ("```{list-table} Titel\n* - Das\n  - Da\n```\n", "```{list-table} TITEL\n* - DAS\n  - DA\n```\n"),
    "title of Pandoc": ("% Das Haus\n% so\n%\nDa\n", "% DAS HAUS\n% so\n%\nDA\n"),
    "include": ('{% include a.html content="Das Haus" x="so so" %}\n', '{% include a.html content="DAS HAUS" x="so so" %}\n'),
    "yaml": (
        "---\ntitle: Ein Haus\nid: nein\ntags: [so]\nhero:\n  description: >\n    Das ist\n    gut\n---\nDa\n",
        "---\ntitle: EIN HAUS\nid: nein\ntags: [so]\nhero:\n  description: >\n    DAS IST GUT\n---\nDA\n",
    ),
    "toml": ('+++\ntitle = "Ein Haus"\nid = "so"\n+++\nDa\n', '+++\ntitle = "EIN HAUS"\nid = "so"\n+++\nDA\n'),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_sites_write(name: str) -> None:
    source, expected = CASES[name]
    assert shouted(source) == expected


@pytest.mark.parametrize("front", ["---\ntitle: |\n  Ein\n  Haus\n---\n", '+++\ntitle = """\nEin\nHaus"""\n+++\n'])
def test_lines_of_the_front_matter_are_left_and_told(front: str) -> None:
    assert [(each.context, each.state) for each in read(front + "Da\n").segments] == [("title", "skipped"), ("", "new")]


def test_a_row_in_which_a_bar_parts_code_is_left() -> None:
    page = "| a | b |\n|-|-|\n| `c|d` | nein |\n| \\| `e` ` | g |\n"
    document = read(page)
    assert [(each.source.text, each.state) for each in document.segments if each.state == "skipped"] == [
        ("| `c|d` | nein |", "skipped")
    ]
    assert [each.source.text for each in document.segments if each.state == "new"][2:] == ["g"]


def test_mdx() -> None:
    source = (
        'import A from "b"\nexport const c = {\n  d: "so",\n}\n\n# Haus {1 + 1}\n\n<Tabs groupId="a">\n  <Tab label="Das Haus" '
        'value="so">\n    Das **ist** da.\n\n    - Ein <A b={"}"} title="Titel" /> Haus\n  </Tab>\n</Tabs>\n\n'
        "{/* so\n\nso */}\n\n    Kein Code\n"
    )
    words = ("# Haus", '"Das Haus"', "Das **ist** da.", "- Ein", '"Titel"', "> Haus", "Kein Code")
    assert shouted(source, "a.mdx") == with_capitals(source, *words)
    later = 'Das Haus\n\nimport A from "b"\n\nvon hier \\<-> da\n'
    assert shouted(later, "a.mdx") == 'DAS HAUS\n\nimport A from "b"\n\nVON HIER \\<-> DA\n'
    comments = "<!-- truncate -->\n\n{} <!-- so --> {}\n\n<!-- so\n\nso -->\n"
    tip = '{} <Tip tip="{}" id="so">{}</Tip>\n'
    assert shouted(tip.format("Das", "Haus", "da"), "a.mdx") == tip.format("DAS", "HAUS", "DA")
    assert shouted(comments.format("Das", "da"), "a.mdx") == comments.format("DAS", "DA")
    assert shouted("Das {haus} da\n") == "DAS {haus} DA\n"


def test_what_is_of_one_dialect() -> None:
    text = "Das Wort\n: Der Sinn\n"
    assert texts_of(read(text, dialect="gfm")) == ["Das Wort : Der Sinn"]
    assert "ref" not in read("Das {ref}`Haus <da>` ist\n").segments[0].source.text
    assert texts_of(read("```{note}\nDas\n```\n", dialect="mkdocs")) == []


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        ("[Das](a){: .b }\n[Haus](c){: .b }\n", ["Das", "Haus"]),
        (
            "#titel\n\n::card{a=b}\n#title\nDas\n\n#default\nDa #x\n\n  :::a\n  #b{c=d}\n  Haus\n  :::\n::\n",
            ["#titel", "Das", "Da #x", "Haus"],
        ),
        ('Ein <Foo @click="a > b" :title="c" title="Titel" #d>Text</Foo> da', ["Ein Text da", "Titel"]),
        ('<Foo\n  #a="{ b }"\n  title="Titel"\n/>\n', ["Titel"]),
        (":::{card} Das\nDa\n^^^\nHaus\n+++\nDort\n:::\n", ["Das", "Da", "Haus", "Dort"]),
    ],
)
def test_what_is_a_text_of_its_own(page: str, texts: list[str]) -> None:
    assert texts_of(read(page)) == texts


def test_marks_of_lists_of_pandoc_may_be_long() -> None:
    assert texts_of(read("(@ein-mark) Das Haus\n\n(1) Da\n    so\n", dialect="pandoc")) == ["Das Haus", "Da so"]


@pytest.mark.parametrize(
    "table",
    [
        "so  so\n--- ---\nso\n\n",
        "-----\nso so\n-- --\n\nso so\n-----\n",
        "--- --\nso so\n\n",
        "+----+---+\n| so | s |\n+====+===+\n| so | s |\n+----+---+\n",
    ],
)
def test_tables_that_are_columns_of_characters_stay_and_are_told(table: str) -> None:
    page = f"Das\n\n---\n\n{table}Da\n"
    (done,) = run(Shouting(), ("markdown", page))
    assert done.data.decode() == with_capitals(page, "Das", "Da\n")
    assert [(each.line, each.text.partition(":")[0]) for each in done.summary.warnings] == [(5, "kept as it was")]


@pytest.mark.parametrize("line", ["lang: {}", 'language = "{}"', "locale: {}"])
def test_the_front_matter_says_the_language(line: str) -> None:
    mark = "+++" if "=" in line else "---"
    for said, becomes in (("de", "en"), ("de-AT", "en"), ("fr", "fr")):
        page = f"{mark}\n{line}\nid: de\n{mark}\nDas\n"
        assert shouted(page.format(said), source="de", target="en") == page.format(becomes).replace("Das", "DAS")


def test_values_of_the_front_matter_stay_values() -> None:
    page = "---\ntitle: Haus\n---\n"
    for said in ("a: b", "No", "12:30", "on", "- a", "'a", "a #b", "ja", "y", "{a}"):
        written = read(page).write({0: Tagged(said)}, print).decode()
        assert written == f"---\ntitle: {said}\n---\n" if said == "ja" else written == f'---\ntitle: "{said}"\n---\n'


def left(document: Document, text: str) -> list[str]:
    """Returns the letters that are neither a segment's nor left for a reason."""
    assert isinstance(document, Checked)
    return [text[part.start : part.end] for part in unread(text, document.parts)]


@pytest.mark.parametrize("name", CASES)
def test_every_letter_is_in_a_segment_or_left_for_a_reason(name: str) -> None:
    text = CASES[name][0]
    assert left(read(text), text) == []


def test_what_is_in_no_part_is_found() -> None:
    assert unread("ab - cd", [Part(0, 2, "")]) == [Part(2, 7, "not understood")]
    assert unread("ab - cd", [Part(5, 7, "code"), Part(0, 2, "")]) == []


MARKUP = st.text(alphabet="ab \n\n  >-*_`[]()!#|:~<>/=$\\{}&;1.\r\0\t\"'^", max_size=60)


@settings(deadline=None, max_examples=300)
@given(text=MARKUP)
@example("'a^a^")
def test_nothing_is_lost_whatever_is_written(text: str) -> None:
    document = read(text)
    assert document.write({}, print) == text.encode()
    assert left(document, text) == []
    changed = {n: Tagged(f"b {segment.source.text} #", ()) for n, segment in enumerate(document.segments)}
    written = document.write(changed, lambda *_: None).decode()
    assert not list(compare(blocks_of(text), blocks_of(written)))


@given(st.text(st.sampled_from("(()) \\\n\x7fa<>ä&;")).map(lambda text: text.replace("ä", "(" * 30)))
def test_targets_of_links_are_those_of_the_library(text: str) -> None:
    own, theirs = destination(f"[a]({text}", 4, 4 + len(text)), parseLinkDestination(f"[a]({text}", 4, 4 + len(text))
    assert own.ok == theirs.ok
    assert not own.ok or (own.pos, own.str) == (theirs.pos, theirs.str)


def test_a_moved_heading_with_code() -> None:
    page = "# Das `haus(a)` hier\n\n[da](#das-hausa-hier)\n"
    (done,) = translate_documents(Shouting(), [("a", read(page, dialect="gfm"))], DecodingOptions())
    assert done.data == b"# DAS `haus(a)` HIER\n\n[DA](#das-hausa-hier)\n"
    page += "\n## Dort {#da}\n\n[da](#da)\n"  # an id that a heading is given stays
    answers = {"Das {t1} hier": "It is {t1}"}
    (done,) = translate_documents(Shouting(answers), [("a", read(page, dialect="gfm"))], DecodingOptions())
    assert done.data == b"# It is `haus(a)`\n\n[DA](#it-is-hausa)\n\n## DORT {#da}\n\n[DA](#da)\n"


PAGE = "# Ein *Haus*\n\n[da](#ein-haus) [dort](b.md#das-dach)\n\n## Das Dach {#d}\n\n## Ein Haus\n\n[da](#ein-haus-1)\n"


@pytest.mark.parametrize(
    ("dialect", "anchors", "changed"),
    [
        ("gfm", "keep", {}),
        ("gfm", "auto", {"#ein-haus)": "#haus)", "#ein-haus-1": "#haus-1"}),
        (
            "docusaurus",
            "auto",
            {"# EIN *HAUS*": "# EIN *HAUS* {#ein-haus}", "## EIN HAUS": "## EIN HAUS {#ein-haus-1}"},
        ),
        ("mkdocs", "explicit", {"# EIN *HAUS*": "# EIN *HAUS* { #ein-haus }"}),
        ("myst", "auto", {"# EIN *HAUS*": "(ein-haus)=\n# EIN *HAUS*", "## EIN HAUS": "(ein-haus-1)=\n## EIN HAUS"}),
    ],
)
def test_links_to_headings_work(dialect: str, anchors: str, changed: dict[str, str]) -> None:
    document = read(PAGE, dialect=dialect, anchors=anchors)
    assert document.write({}, print) == PAGE.encode()
    answers = {} if dialect != "gfm" or anchors == "keep" else {"Ein Haus": "Haus"}
    (done,) = translate_documents(Shouting(answers), [("a.md", document)], DecodingOptions())
    assert not done.summary.kept
    expected = with_capitals(PAGE, "# Ein *Haus*", "[da]", "[dort]", "Das Dach", "## Ein Haus")
    if answers:
        expected = expected.replace("EIN *HAUS*", "*Haus*").replace("EIN HAUS", "Haus")
    for old, new in changed.items():
        expected = expected.replace(old, new, 1)
    assert done.data.decode() == expected


def test_headings_that_other_pages_link() -> None:
    document = read("# Das Haus\n", dialect="hugo", linked=frozenset(["das-haus"]))
    assert document.write({0: Tagged("The house")}, print) == b"# The house {#das-haus}\n"
    assert fragments("[a](b.md#c) [d](#e 'f')\n\n[g]: h#i\n\n<a href='j#k'>") == {"c", "e", "i", "k"}


@pytest.mark.parametrize(
    ("dialect", "slug"),
    [
        ("", "über-uns--mehr_x-2"), ("mkdocs", "uber-uns-mehr_x-2"), ("vitepress", "uber-uns-mehr-x-2"),
        ("pandoc", "über-uns-mehr_x-2"), ("jekyll", "über-uns--mehr_x-2"),
    ],
)  # fmt: skip
def test_ids_of_headings(dialect: str, slug: str) -> None:
    assert slug_of("Über uns: & Mehr_x 2?", dialect) == slug


def test_relative_targets_are_based_anew() -> None:
    page = (
        '[a](b.md#c) ![d](e.png "f") [g](http://h/i) [j](/k) [l](../m) [n]\n\n[n]: o.png\n\n<img src="p.png" alt="q">\n'
    )
    source = page.replace("o.png", "o.png 'r'")

    def change(target: str) -> str:
        return rebase(target, "/docs", "/docs/en", lambda path: path if path != "/docs/b.md" else None)

    document = read(source, rebase=change)
    (done,) = translate_documents(Shouting(), [("a.md", document)], DecodingOptions())
    expected = source.replace("](e.png", "](../e.png").replace("../m", "../../m").replace("o.png", "../o.png")
    expected = expected.replace('"p.png"', '"../p.png"')
    expected = with_capitals(expected, "[a]", "![d]", "[g]", "[j]", "[l]", '"q"', '"f"', "'r'")
    assert done.data.decode() == expected and not done.summary.warnings


def test_the_dialect_is_that_of_the_nearest_site(tmp_path: Path) -> None:
    (tmp_path / "docs" / "a").mkdir(parents=True)
    (tmp_path / "site").mkdir()
    (tmp_path / "mkdocs.yml").touch()
    (tmp_path / "site" / "docusaurus.config.ts").touch()
    assert dialect_in(tmp_path / "docs" / "a") == "mkdocs"
    assert dialect_in(tmp_path / "site") == "docusaurus"
    (tmp_path / "docs" / ".git").touch()
    dialect_in.cache_clear()
    assert dialect_in(tmp_path / "docs" / "a") == ""


class Said:
    """A translator that says what a function makes of words, but for stand-ins."""

    def __init__(self, change: Callable[[list[str]], list[str]]) -> None:
        self._change = change

    def translate(self, lines: Any, options: DecodingOptions) -> Iterator[Aligned]:
        for line in lines:
            words = self._change(line.text.split(" "))
            yield Aligned(
                line, " ".join(words), alignment=[(n, n) for n in range(min(len(words), line.text.count(" ") + 1))]
            )


def each(change: Callable[[str], str]) -> Said:
    return Said(lambda words: [word if STAND_IN.search(word) else change(word) for word in words])


TRANSLATORS = {
    "double": each(lambda word: f"{word} {word}"),
    "reverse": Said(lambda words: words[::-1]),
    "mirror": each(lambda word: word[::-1]),
    "drop": Said(lambda words: words[::2]),
    "escape": each(lambda word: f"\\{word}"),
    "stars": each(lambda word: f"*{word}*"),
    "list": Said(lambda words: ["1.", *words]),
    "rule": Said(lambda words: ["-", "-", "-"]),
    "code": each(lambda word: f"`{word}"),
    "cells": each(lambda word: f"{word}|"),
}
HARD = [
    "*foo __bar *baz bim__ bam*\n", "**foo*bar**baz*\n", "_ _ _ _ a\n", "*foo [bar](/url)*\n", "![foo *bar*]\n\n[foo *bar*]: a\n",
    "[foo]\n\n[foo]: /url 'title'\n", "a\n===\n", "> a\nb\n> c\n", "- a\n\n  b\n- c\n", "1) a\n2) b\n", "a\\\nb  \nc\n", "<a><b>c\n",
    "[link](<a b> \"c\")\n", "`` a ` b ``\n", "&copy; &amp; a\n", "* a *\n", "foo <!-- b --> c\n", "<div>\n*a*\n", "\\# a\n", "a <http://b.c> d\n",
    "*a `*`*\n", "[a [b](c) d](e)\n", "| a | b |\n|-|:-:|\n| c \\| d | *e* |\n", "~~a~~ b\n", "a\n- b\n", "#hash\n", "+ a\n\n  + b\n", "***a** b*\n",
]  # fmt: skip


@pytest.mark.parametrize("name", TRANSLATORS)
def test_no_translation_has_another_shape(name: str) -> None:
    kept = 0
    for source in [*HARD, *(source for source, _ in CASES.values())]:
        document = read(source)
        (done,) = translate_documents(TRANSLATORS[name], [("a", document)], DecodingOptions())
        assert not list(compare(blocks_of(source), blocks_of(done.data.decode()))), source
        kept += done.summary.kept
    if name in ("double", "escape"):
        assert kept <= 6


FAULTS = [
    ("# a\n", "## a\n"), ("# a\n", "\\# a\n"), ("a\n\nb\n", "a\nb\n"), ("a b\n", "a\n\nb\n"), ("- a\n- b\n", "- a\n\n- b\n"),
    ("- a\n- b\n", "- a b\n"), ("1. a\n", "2. a\n"), ("> a\n", "a\n"), ("`a` b\n", "a b\n"), ("`a` b\n", "`c` b\n"),
    ("[a](b)\n", "[a](c)\n"), ("[a](b)\n", "a\n"), ("[a](b 'c')\n", "[a](b)\n"), ("![a](b)\n", "[a](b)\n"),
    ("![a](b)\n", "![a](c)\n"), ("*a* b\n", "**a** b\n"), ("*a* b\n", "a b\n"), ("**a *b***\n", "**a** *b*\n"), ("~~a~~\n", "a\n"),
    ("```x\na\n```\n", "```y\na\n```\n"), ("```\na\n```\n", "```\nb\n```\n"), ("    a\n", "a\n"), ("***\n", "a\n"),
    ("| a |\n|-|\n| b |\n", "| a |\n| b |\n"), ("| a |\n|-|\n| b |\n", "| a |\n|-:|\n| b |\n"), ("|a|\n|-|\n|b|\n", "|a|\n|-|\n"),
    ("a <b>c</b>\n", "a c\n"), ("<p class=a>b</p>\n", "<p class=c>b</p>\n"), ("<div>\na\n</div>\n", "<div>\na\n"), ("a  \nb\n", "a\nb\n"),
    ("a[^1]\n\n[^1]: b\n", "a\n\n[^1]: b\n"), ("- [ ] a\n", "- [x] a\n"), ("> [!NOTE]\n> a\n", "> NOTE\n> a\n"),
    (":::note\na\n:::\n", ":::tip\na\n:::\n"), ("{{ a }} b\n", "{{ c }} b\n"), ("{% a %}\n", "{% b %}\n"), ("[[a|b]]\n", "[[c|b]]\n"),
    ("$$a$$ b\n", "$$c$$ b\n"), ("!!! a\n    b\n", "!!! c\n    b\n"), ("http://a.b c\n", "http://a.c c\n"), ("a\n{: .b}\n", "a\n{: .c}\n"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target"), FAULTS)
def test_the_check_finds_what_is_wrong(source: str, target: str) -> None:
    assert list(compare(blocks_of(source), blocks_of(target)))
    assert not any(
        re.search(r"(\w+) would be read as \1$", each.text) for each in compare(blocks_of(source), blocks_of(target))
    )
    assert not list(compare(blocks_of(source), blocks_of(source)))


def test_the_check_goes_on_behind_what_has_other_attributes() -> None:
    source, target = blocks_of("- [ ] a\n- `b`\n\n# c\n\n`d`\n"), blocks_of("- [x] a\n- `e`\n\n## c\n\n`f`\n")
    assert [fault.lines for fault in compare(source, target)] == [(1, 1), (2, 2), (4, 4), (6, 6)]


def test_text_alone_has_no_targets_to_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape, "_retargeted", None)
    assert not list(compare(blocks_of("# a\n\nb\n"), blocks_of("# c\n\nd\n"), {"e": "f"}))


def test_code_that_names_pre_does_not_begin_it() -> None:
    document = read("In `<pre>` steht Code.\n\nText mit <pre>.\n\ncode\n\n</pre>\n\nUnd Schluss.\n")
    said = [each.source.text for each in document.segments if each.state != "skipped"]
    assert said == ["In {t1} steht Code.", "Text mit {t1}.", "Und Schluss."]


def test_of_many_brackets_those_that_close_are_of_links() -> None:
    (segment,) = read("[" * 20 + "Das [Haus](u) [da]").segments
    assert (segment.source.text, len(segment.source.tags)) == ("[" * 20 + "Das Haus [da]", 1)


def test_many_escapes_in_a_row_are_one() -> None:
    text = r"\[\*" * 10 + r"\(a+b\) das *Haus*"
    (segment,) = (document := read(text)).segments
    assert (segment.source.text, len(segment.source.tags)) == ("[*" * 10 + "{t1} das Haus", 2)
    assert sum(child.type == "text_special" for child in parser("auto").parseInline(text)[0].children or ()) == 1
    assert document.write({}, lambda *_: None) == text.encode()


def test_a_text_is_read_once_and_its_translation_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parse, parsed = InlineParser.parse, []

    def note(self: InlineParser, src: str, *rest: Any) -> Any:
        parsed.append(src)
        return parse(self, src, *rest)

    monkeypatch.setattr(InlineParser, "parse", note)
    assert shouted("Das *alte* Haus\n") == "DAS *ALTE* HAUS\n"
    assert parsed == ["Das *alte* Haus", "DAS *ALTE* HAUS"]
    parsed.clear()
    assert shouted("Das `alte` Haus: und das\n") == "DAS `alte` HAUS: UND DAS\n"
    assert parsed == ["Das `alte` Haus: und das"]


def test_text_without_marks_is_no_work_for_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InlineParser, "tokenize", None)
    assert shouted("# Das Haus\n\nUnd das: ja!\n") == "# DAS HAUS\n\nUND DAS: JA!\n"


def test_the_check_reads_again_only_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    read_part, parts = shape._read, list[str]()

    def note(xml: str) -> list[shape.Block]:
        parts.append(xml)
        return read_part(xml)

    monkeypatch.setattr(shape, "_read", note)
    said = dict(enumerate(map(Tagged, ("Haus", "www.a.de", "das", "dach"))))
    data, told = fill(read("Das Haus\n\nDie Tür\n\n- Das\n- Dach\n"), said)
    assert data == "Haus\n\nDie Tür\n\n- das\n- dach\n"
    assert len(told) == 1
    assert [re.findall(r">([^<\n]+)<", part) for part in parts if part] == [
        ["Das Haus", "Die Tür", "Das", "Dach"], ["Haus"], ["www.a.de"], ["das", "dach"], ["Die Tür"],
    ]  # fmt: skip


@given(st.lists(st.sampled_from([*"a 1\n!#$%&()*+-.:<=>@[]^_`{|}~\\", ":b:", "++c++", "[d](e)", "![f]"]), max_size=12))
def test_what_ends_a_text_is_all_that_something_begins_with(parts: list[str]) -> None:
    def shown() -> list[tuple[str, str, Any]]:
        (token,) = markdown.parseInline("".join(parts))
        return [(child.type, child.content, child.meta.get("at")) for child in token.children or ()]

    markdown = parser.__wrapped__("")
    ours = shown()
    markdown.inline.terminator_re = re.compile(r"\W|_")
    assert ours == shown()


def test_backticks_of_two_texts_are_no_code() -> None:
    document = read("Das \\`a.\\\nDas \\`b.\n")
    (written,) = translate_documents(Shouting(), [("a.md", document)], DecodingOptions())
    assert written.data == b"DAS \\`A.\\\nDAS \\`B.\n"


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        ("Hallo **eins<br>zwei** da\n", ["Hallo eins", "zwei da"]),
        ("| a |\n|-|\n| [eins<br>zwei](b) |\n", ["a", "eins", "zwei"]),
        ("*eins  \nzwei* drei\n", ["eins", "zwei drei"]),
        ("**a *eins<br>zwei***\n", ["a eins", "zwei"]),
        ("- <b><i>[eins<br/>zwei](a)</i></b>\n", ["eins", "zwei"]),
    ],
)
def test_a_break_in_an_element_ends_a_text(page: str, texts: list[str]) -> None:
    assert texts_of(read(page)) == texts


def test_links_to_headings_of_other_pages_follow_them(tmp_path: Path) -> None:
    pages = {
        "a.md": "# Das Haus\n\n[da](b.md#das-dach-1) [dort](./sub/c#der-gr%C3%BCne-baum) [nie](d.md#ende)\n",
        "b.md": "# Das Dach\n\n[hier][1]\n\n## Das Dach\n\n`[nein](a.md#x)`\n\n[1]: a.md#das-haus\n",
        "sub/c.md": "# Der grüne Baum\n\n<a href='../b.md#das-dach'>o</a> [so](../a.md) [da](#der-gr%C3%BCne-baum)\n",
    }
    tasks = [Task(tmp_path / "de" / name, tmp_path / "en" / name, "markdown") for name in pages]
    for task, text in zip(tasks, pages.values(), strict=True):
        assert task.source is not None
        task.source.parent.mkdir(parents=True, exist_ok=True)
        task.source.write_text(text)
    answers = {"Das Haus": "The house", "Das Dach": "The roof", "Der grüne Baum": "The green tree"}
    options: dict[str, Any] = dict.fromkeys(DOCUMENT_NAMES, ())
    documents = DocumentOptions(**options | {"dialect": "gfm", "anchors": "auto", "fuzzy_below": None})
    translate_tasks(Shouting(answers), ("de", "en"), tasks, DecodingOptions(), documents, None, damaged=[], quiet=True)
    said = {name: (tmp_path / "en" / name).read_text() for name in pages}
    assert said == {
        "a.md": "# The house\n\n[DA](b.md#the-roof-1) [DORT](./sub/c#the-green-tree) [NIE](d.md#ende)\n",
        "b.md": "# The roof\n\n[HIER][1]\n\n## The roof\n\n`[nein](a.md#x)`\n\n[1]: a.md#the-house\n",
        "sub/c.md": "# The green tree\n\n<a href='../b.md#the-roof'>O</a> [SO](../a.md) [DA](#the-green-tree)\n",
    }
    for name in pages:
        paths = tmp_path / "de" / name, tmp_path / "en" / name
        pair = Pair(*paths, "markdown", Settings(), Rules(languages=("de", "en")), is_strict=True)
        assert not [found for found in check_pair(pair) if found.kind in ("block", "link")]


def test_titles_of_links_and_images_are_texts() -> None:
    page = (
        '[hier](x "Der Titel") ![Hund](a.png \'Der Hund\' ) [leer](y "") [z](<a b> "d\\"e")\n\n'
        '> [r]: x.png\n>  "Von \'hier\'"\n\n[a][r] "kein Titel"\n'
    )
    document = read(page)
    assert [each.source.text for each in document.segments if each.state == "new"] == [
        "hier {t1} leer z", "Der Titel", "Der Hund", "Hund", 'a "kein Titel"', "Von 'hier'",
    ]  # fmt: skip
    said = document.write({1: Tagged('It\'s "it"'), 2: Tagged('Peter\'s "dog"')}, print).decode()
    assert '(x "It\'s &quot;it&quot;")' in said and "'Peter&#39;s \"dog\"'" in said
    assert not [*compare(blocks_of(page), blocks_of(said))]
    assert [*compare(blocks_of(page), blocks_of(page.replace(' "Der Titel"', "")))]
