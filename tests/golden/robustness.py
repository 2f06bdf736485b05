"""Lines that a translator of real text meets: what they hold that must come out as it went in, and odd shapes."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Final

SENTENCES: Final = {
    "de": (
        "Die Anleitung liegt unter {} bereit.",
        "Bitte senden Sie Ihre Antwort bis Freitag an {}.",
        "Ich habe {} gestern gelesen.",
        "Wenn {} fehlt, startet der Server nicht.",
        "{} steht in der ersten Zeile.",
        "Warum ist {} noch nicht fertig?",
        "Der Fehler tritt auf, sobald {} geändert wird.",
        "Klicken Sie auf {}, um fortzufahren.",
        "Hinweis: {}",
        "Der Wert ({}) ist falsch!",
        "„{}“ ist nicht erlaubt.",
        "Ersetzen Sie {} durch {}.",
        "Weder {} noch {} wurden gefunden, also suchen wir weiter.",
        "{}: Die Verbindung zu {} wurde beendet.",
        "Zuerst kommt {}, danach {} und zum Schluss {}.",
    ),
    "en": (
        "The manual can be found at {}.",
        "Please send your answer to {} by Friday.",
        "I read {} yesterday.",
        "If {} is missing, the server does not start.",
        "{} is on the first line.",
        "Why is {} not ready yet?",
        "The error occurs as soon as {} is changed.",
        "Click {} to continue.",
        "Note: {}",
        "The value ({}) is wrong!",
        '"{}" is not allowed.',
        "Replace {} with {}.",
        "Neither {} nor {} were found, so we keep looking.",
        "{}: The connection to {} was closed.",
        "First comes {}, then {} and finally {}.",
    ),
}
"""Sentences with gaps, by language."""

UNLISTED: Final = {
    "number": ("0049-30-1234567", "A-4711"),
    "identifier": ("getUserById()", "HashMap"),
    "script": ("Москва", "東京"),
}
"""What the models copy themselves, mostly, by kind."""


def unlisted(language: str) -> list[tuple[str, str]]:
    """Returns a line for each sentence with one gap and each thing, and the thing."""
    sentences = [sentence for sentence in SENTENCES[language] if sentence.count("{}") == 1]
    return [(s.replace("{}", thing), thing) for things in UNLISTED.values() for thing in things for s in sentences]


SHAPES: Final = {
    "de": {
        "no full stop": "Der Hund schläft unter dem Tisch",
        "short form": "Viele Tiere, z. B. Hunde und Katzen, leben bei Menschen.",
        "ordinal": "Am 3. Oktober ist ein Feiertag.",
        "thousands": "Die Stadt hat 1.234.567 Einwohner.",
        "decimal": "Das Brot kostet 3,50 Euro.",
    },
    "en": {
        "no full stop": "The dog is sleeping under the table",
        "short form": "Many animals, e.g. dogs and cats, live with people.",
        "ordinal": "The 3rd of October is a holiday.",
        "thousands": "The city has 1,234,567 inhabitants.",
        "decimal": "The bread costs 3.50 euros.",
    },
}
"""Lines of unusual shape, by language."""

LINKED: Final = {
    "de": ("Hilfe", "die Seite", "unsere Webseite", "hier klicken", "Neue Version"),
    "en": ("help", "the page", "our website", "click here", "New version"),
}
"""What stands inside of elements and links, by language."""

_WORDS: Final = (
    "alpha beta user name config index data main test item file value start home shop blog docs api cloud mail"
)
WORDS: Final = _WORDS.split()

# ‹w›, ‹W› and ‹U› are a word in small letters, with a capital, in capitals; ‹d4› and ‹h4› digits and hexadecimal ones.
LISTED: Final[dict[str, tuple[str, ...]]] = {
    "url": (
        "https://‹w›.‹w›-‹w›.com", "http://‹w›.de/‹w›/‹w›.html", "https://www.‹w›.org/‹w›/‹w›_(‹w›)",
        "www.‹w›.net/~‹w›", "https://‹w›.eu/‹w›?‹w›=‹d3›&x=%20#top", "ftp://‹w›.io/‹w›/", "https://‹w›:8080/?q=",
        "‹w›-‹w›.org/‹w›", "‹w›.com",
    ),
    "e-mail": ("‹w›@‹w›.de", "‹w›.‹w›+‹d2›@‹w›-‹w›.co.uk", "no-reply@‹w›.‹w›.com", "mailto:‹w›@‹w›.org"),
    "printf": (
        "%s", "%d", "%i", "%5.2f", "%1$s", "%2$d", "%-10s", "%lld", "%@", "%x", "%%", "%zu", "%d%%", "%03d",
        "%(‹w›)s",
    ),
    "python": ("{}", "{0}", "{‹w›}", "{:.2f}", "{‹w›.‹w›!r}", "{‹w›:>10}", "%(‹w›)d", "{‹w›[0]}", "{n:,}"),
    "template": (
        "{{ ‹w› }}", "{{‹w›}}", "{{#‹w›}}", "{{{‹w›}}}", "${{ ‹w›.x }}", "{% if ‹w› %}", "#{‹w›}", "<%= ‹w› %>",
        "%{‹w›}", "{{ ‹w›|upper }}",
    ),
    "icu": (
        "{‹w›, plural, one {# file} other {# files}}", "{‹w›, plural, =0 {keine} one {eine {x}} other {# {x}}}",
        "{‹w›, select, male {he} female {she} other {they}}", "{‹w›, number, percent}", "{‹w›, date, short}",
    ),
    "variable": ("$‹U›", "${‹U›}", "%‹U›%", "‹U›_‹U›", "‹w›_‹w›", "$‹U›_‹d1›", "$‹w›"),
    "code": (
        "`rm -rf /‹w›`", "`x = ‹w› + 1`", "``git push --force``", "`print('‹w›')`", "``Der ‹W›``", "`a|b`",
        "<code>‹w›</code>",
    ),
    "hash": (
        "0x‹h8›", "0x‹h3›", "#‹h6›", "#‹d4›", "‹h7›", "‹h40›", "‹h64›", "‹h8›-‹h4›-‹h4›-‹h4›-‹h12›", "sha256:‹h64›",
    ),
    "iban": (
        "DE‹d20›", "DE‹d2› ‹d4› ‹d4› ‹d4› ‹d4› ‹d2›", "GB‹d2› NWBK ‹d4› ‹d4› ‹d4› ‹d2›",
        "FR‹d2› ‹d4› ‹d4› ‹d3›M ‹d3›R",
    ),
    "windows": (
        "C:\\‹W›\\‹w›.exe", "D:\\‹w›", "C:\\Program Files\\‹W›\\‹w›.v2.log", "%APPDATA%\\‹W›\\‹w›.txt",
        "C:/‹w›/‹w›", "\\\\‹w›\\‹w›\\‹w›.txt", "\\\\‹w›.local\\‹w›$", "\\\\‹w›\\Program Files\\‹w›",
        "C:\\Users\\‹W› ‹W›\\‹w›.txt",
    ),
    "path": (
        "/‹w›/‹w›/‹w›.conf", "~/‹w›/.‹w›rc", "./‹w›.sh", "../‹w›/‹w›.tar.gz", "‹w›/‹w›.py", "$HOME/‹w›/‹w›.md",
        "‹w›-‹d2›.pdf",
    ),
    "version": (
        "1.‹d2›.‹d2›", "v2.‹d1›", "v1.‹d1›.‹d2›", "4.0.‹d1›-rc.1", "10.0.‹d5›.‹d1›", "v1.0.0-beta+7", "0.‹d1›.0b2",
    ),
    "time": (
        "‹d1›:‹d2›:‹d2›", "12:‹d2›:‹d2›.‹d3›", "2024-02-2‹d1›T10:‹d2›:00Z", "09:‹d2›:‹d2›,‹d3›",
        "2024-02-1‹d1›T10:00+01:00", "2025-11-0‹d1›",
    ),
    "address": (
        "192.168.1‹d1›.2‹d1›", "10.0.0.‹d2›:8080", "10.0.0.0/24", "fe80::1ff:fe‹d2›:4567:890a", "::1",
        "00:1a:2b:3c:4d:‹d2›",
    ),
    "phone": ("+49 30 ‹d7›", "+43-1-‹d6›", "+44 (0)20 ‹d4› ‹d4›"),
    "flag": ("--‹w›", "--‹w›-‹w›", "--no-‹w›=‹d2›", "-v", "-x", "--‹w›=‹w›"),
    "emoji": (
        "🎉", "👍🏽", "👨\u200d👩\u200d👧", "🏳️\u200d🌈", "🇩🇪", "❤️", "1️⃣", "⭐",
        "⏰", "😀😀", "🏴\U000e0067\U000e007f", "▶️",
    ),
    "stand-in": ("%1", "%2", "%3", "%10", "%1%2", "%1%", "%%1", "50%1", "%1.5", "%17", "a%20b"),
    "tag": ("<b>{}</b>", "<i>{}</i>", "<em>{}</em>", "<u>{}</u>", "<br/>{}", "<h2>{}</h2>", "<B>{}</B>", "<p>{}</p>"),
    "html": (
        '<a href="https://‹w›.org/‹w›?x=‹d2›">{}</a>',
        '<a class="x" href="/‹w›?a=1&amp;b=2" title="Das ist > das">{}</a>',
        "<span style='color: #ff8800'>{}</span>", '<img src="‹w›.png" alt="Bild"/> {}',
        '<a href="mailto:‹w›@‹w›.de"><b>{}</b></a>', '<x id="‹d1›"/>{}', '<g id="‹d1›">{}</g>',
    ),
    "markdown": (
        "[{}](https://‹w›.com/‹w›)", "[{}](/‹w›/‹w›)", "![{}](#‹w›)", "[**{}**](‹w›.md)",
        '[{}](https://‹w›.de "Titel")', "**{}**", "[{}](https://‹w›.org/‹w›_(‹w›))",
    ),
}  # fmt: skip
"""What comes out as it went in, by kind; at {} with a text inside."""


def make(template: str, rng: random.Random) -> str:
    """Returns something like a template."""

    def fill(match: re.Match[str]) -> str:
        kind, length = match[1], int(match[2] or 0)
        if kind == "d":
            return "".join(rng.choice("0123456789") for _ in range(length))
        if kind == "h":
            return "".join(rng.choice("0123456789abcdef") for _ in range(length - 2)) + "a7"
        word = rng.choice(WORDS)
        return {"w": word, "W": word.capitalize(), "U": word.upper()}[kind]

    return re.sub(r"‹(\w)(\d*)›", fill, template)


def listed(language: str, kind: str, seed: int = 1) -> Iterator[tuple[str, list[str]]]:
    """Yields lines without an end, each with what must come out as it went in."""
    rng = random.Random(f"{language} {kind} {seed}")
    while True:
        line, *pieces = rng.choice(SENTENCES[language]).split("{}")
        wanted: list[str] = []
        for piece in pieces:
            thing = make(rng.choice(LISTED[kind]), rng)
            if thing == "{}" or "{}" not in thing:
                wanted.append(thing)
            else:
                wanted += [part.strip() for part in thing.split("{}") if part]
                thing = thing.replace("{}", rng.choice(LINKED[language]))
            line += thing + piece
        yield line, wanted
