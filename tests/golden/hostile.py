"""Lines made up by kind, and what must hold of their translations whatever a model says."""

from __future__ import annotations

import random
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from specmt.options import DecodingOptions
from specmt.text.placeholders import in_order
from specmt.translator import Translator
from tests.golden.robustness import SENTENCES, WORDS, make


class Made(NamedTuple):
    """A line, and what must hold of its translation."""

    line: str

    copied: tuple[str, ...] = ()
    """What is in it as often as in the line."""

    parts: tuple[str, ...] = ()
    """What it is joined of: a text translated by itself, what is copied, and so on in turn."""

    pattern: str = ""
    """A regular expression that it matches."""


TEXTS: Final = {
    "de": (
        "Der Hund schläft unter dem Tisch.",
        "Morgen fahren wir früh nach Köln.",
        "Wo ist der Schlüssel?",
        "Bitte öffnen Sie das Fenster!",
        "Die Kinder spielen im Garten.",
        "Das Café über der Straße ist geschlossen.",
        "Meine Schwester arbeitet in einer großen Bäckerei.",
        "Wir haben gestern einen schönen Film gesehen.",
    ),
    "en": (
        "The dog is sleeping under the table.",
        "We are going to Cologne tomorrow.",
        "Where is the key?",
        "Please open the window!",
        "The children play in the garden.",
        "The café across the street is closed.",
        "My sister works in a large bakery in Zürich.",
        "Yesterday we saw a beautiful film.",
    ),
}
"""Sentences without digits, by language."""

CELLS: Final = {
    "de": ("Name", "Adresse", "offen", "Straße", "Preis", "Menge", "letzte Änderung", "Sprache"),
    "en": ("Name", "Address", "open", "street", "Price", "Amount", "last change", "Language"),
}
SHOUTED: Final = {
    "de": ("Das ist SEHR wichtig.", "Bitte NICHT öffnen!", "Wir haben KEINE Zeit.", "Er kommt IMMER zu spät."),
    "en": ("This is VERY important.", "Please do NEVER open it!", "We have NOTHING left.", "He ALWAYS comes late."),
}
_COUNTED: Final = {
    "de": (
        "Die Stadt hat {} Einwohner.",
        "Der Preis stieg von {} auf {}.",
        "Sie wurde am {} in Ulm geboren.",
        "Rufen Sie {} oder {} an!",
        "Die Fläche beträgt {} Quadratmeter ({} Hektar).",
        "Seit {} gilt {} statt {}, und {} ist abgeschafft.",
        "Von {} bis {} haben wir geschlossen.",
        "Bitte überweisen Sie {} bis zum {}.",
    ),
    "en": (
        "The city has {} inhabitants.",
        "The price rose from {} to {}.",
        "She was born on {} in Ulm.",
        "Call {} or {}!",
        "The area is {} square metres ({} acres).",
        "Since {}, {} is used instead of {}, and {} is gone.",
        "We are closed from {} to {}.",
        "Please pay {} by {}.",
    ),
}
_TIMED: Final = {
    "de": ("Der Zug fährt um {} Uhr ab und ist um {} Uhr da.", "Von {} bis {} Uhr haben wir Pause."),
    "en": ("The train leaves at {} and arrives at {}.", "The break is from {} to {} p.m."),
}
_PAIRS: Final = {
    "de": ("Lesen Sie die {}Anleitung{} und die Regeln.", "Klicken Sie {}hier{}, um zu beginnen."),
    "en": ("Read the {}manual{} and the rules.", "Click {}here{} to begin."),
}
_GLUED: Final = {
    "de": ("{}Sie sind angemeldet.", "Hallo{}Welt", "{}Willkommen{}"),
    "en": ("{}You are logged in.", "Hello{}world", "{}Welcome{}"),
}

# As robustness.make has them, written as in English: in German, commas and points change places.
NUMBERS: Final = {
    "numbers": (
        "1‹d2›", "2‹d3›", "3‹d1›.‹d2›", "4,‹d3›", "5‹d2›,‹d3›.‹d2›", "0.‹d3›", "6,‹d3›,‹d3›", "7‹d1›.5 %", "-1‹d1›",
    ),
    "amounts": (
        "€1‹d1›.‹d2›", "$2,‹d3›", "3‹d1› €", "4‹d1›,‹d3›.‹d2› EUR", "£5‹d2›", "6‹d1›.5%", "7‹d2› million euros",
    ),
    "long integers": ("1‹d8›", "2‹d11›", "3‹d17›", "00‹d7›", "4‹d30›", "5‹d5›"),
}  # fmt: skip
"""Kinds of numbers that a translation may write otherwise, digit for digit."""

LONG: Final = NUMBERS["long integers"]
MOMENTS: Final = {
    "dates": ("1‹d1›.05.199‹d1›", "0‹d1›.1‹d1›.200‹d1›", "3.10.19‹d2›", "201‹d1›-03-1‹d1›", "1‹d1›/07/20‹d2›"),
    "times": ("14:‹d1›0", "1‹d1›:15", "08:4‹d1›", "13:00–17:3‹d1›", "7:05:‹d2›"),
}  # fmt: skip
"""Kinds that a translation may write with other marks."""

COPIED: Final = {
    "names": ("@‹w›", "@‹w›_‹w›", "#‹W›", "#‹W›wende", ":‹w›:", ":‹w›_‹w›:", "@‹w›.‹w›", "#‹w›‹d2›"),
    "codes": ("‹U›‹d2›", "‹d4›-A", "A‹d2›-B‹d3›", "AB‹d4›", "X‹d1›Y‹d1›Z", "‹d3›.‹d2›.AB‹d1›", "Q‹d1›/2024"),
    "opaque strings": (
        "‹h8›-‹h4›-‹h4›-‹h4›-‹h12›", "eyJhbGci‹h8›.eyJzdWIi‹h20›.‹h40›", "data:image/png;base64,iVBOR‹h40›=",
        "SHA256:‹h40›", "a1:b2:‹h2›:‹h2›:‹h2›:‹h2›:‹h2›:‹h2›", "QmFzZTY0‹h20›==",
        "https://‹w›.de/‹h64›‹h64›‹h64›?q=‹h64›",
    ),
    "scripts": (
        "हिन्दी", "தமிழ்", "ไทย", "Երևան", "ქართული", "አማርኛ", "ភាសា", "বাংলা", "ꦧꦱ", "𐍅𐌿𐌻", "ᐃᓄᒃ", "⠓⠊", "∮∇", "≲⊕",
    ),
    "placeholders": ("%s", "%d", "%i", "%5.1f", "%@", "%-10s"),
    "groups of four": ("4‹d3› ‹d4› ‹d4› ‹d4›", "‹d4›-‹d4›-‹d4›-‹d4›", "‹d4› ‹d4› ‹d4›", "‹d4› ‹d4› ‹d4› ‹d4› ‹d2›"),
    "phone numbers": (
        "(0‹d3›) ‹d6›", "0‹d3›/‹d6›", "0‹d3›-‹d7›", "0‹d2› ‹d3› ‹d2› ‹d2›", "(5‹d2›) ‹d3›-‹d4›", "+49 ‹d3› ‹d7›",
        "0‹d3› ‹d6›", "0800/‹d3› ‹d4›",
    ),
    "versions": ("1.‹d1›.‹d1›", "v2.‹d1›", "10.15.‹d1›", "2024.‹d2›.‹d1›", "3.‹d1›.0-rc.2"),
    "colours": ("\x1b[1m", "\x1b[0m", "\x1b[31;1m", "\x1b[38;5;‹d2›m", "\x1b[2K"),
}  # fmt: skip
"""What is in the translation as it is in the line."""

LETTERLESS: Final = (
    *("-----‹d1›-----", "=" * 60, "??????‹d2›", "„“", "?!", "1,2,3", "12.03", "1.234", "|‹d2›||", "***", "…", "[‹d1›]"),
    *("‹d12›", "‹d4› ‹d4› ‹d4› ‹d4›", "(0‹d3›) ‹d6›", "‹d2›:‹d2›", "1.‹d1›.2024", "→ ‹d2›", "\t ‹d2› \t", "1" * 40),
    *("<>", "«‹d2›»", "./.", "+‹d2›‹d3›‹d5›", "#‹d3›", "§ ‹d2›", "‹d1›/‹d1›", "☎ ‹d6›", "〜〜〜", "🎉🎉", "\xad‹d3›"),
    *("10" * 30, "‹d1› × ‹d1›"),
)
PREFIXES: Final = (
    *("[12:0‹d1›] ‹w›: ", "2026-01-0‹d1› 10:00 INFO ", "2026-01-01 10:00:‹d2›,‹d3› WARN [‹w›] ", "> ", ">> ", "  - "),
    *("* ", "• ", "‹d1›) ", "(‹d1›) ", "1‹d1›. ", "a) ", "# ", "// ", "☐ ", "- [ ] ", "[ERROR] ", "<‹w›> ", "    "),
)
RUNS: Final = {
    "de": ("Inhalt {} 12", "{} Einleitung {}", "Name: {}", "Bitte hier abtrennen {}", "Was{}", "Ich weiß es nicht{}"),
    "en": ("Contents {} 12", "{} Introduction {}", "Name: {}", "Please cut here {}", "What{}", "I do not know{}"),
}

_INVISIBLE: Final = "\xad\u200b\u2060\ufeff\u200e\u200f\u202a\u061c"
_THIN: Final = "\xa0\u2009\u202f\u2002"
_COMMAS: Final = str.maketrans(",.", ".,")
_SAYS: Final = {"de": "Er sagte: ", "en": "He said: "}
_EDGES: Final = r"\w(?:.*[\w.!])?"
"""Text without white space at its ends."""

Sentences = Mapping[str, Sequence[str]]
Maker = Callable[[str, random.Random], Made]


def _in_sentence(
    language: str, rng: random.Random, templates: Sequence[str], sentences: Sentences = SENTENCES
) -> tuple[str, list[str]]:
    """Returns a sentence with things that are like templates, and these."""
    sentence = rng.choice(sentences[language])
    things = [make(rng.choice(templates), rng) for _ in range(sentence.count("{}"))]
    return sentence.format(*things), things


def _numbers(kind: str) -> Maker:
    def made(language: str, rng: random.Random) -> Made:
        templates = [each.translate(_COMMAS) if language == "de" else each for each in NUMBERS[kind]]
        return Made(_in_sentence(language, rng, templates, _COUNTED)[0])

    return made


def _moments(kind: str, sentences: Sentences) -> Maker:
    return lambda language, rng: Made(_in_sentence(language, rng, MOMENTS[kind], sentences)[0])


def _copied(kind: str) -> Maker:
    def made(language: str, rng: random.Random) -> Made:
        line, things = _in_sentence(language, rng, COPIED[kind])
        return Made(line, tuple(things))

    return made


def _mixed(language: str, rng: random.Random) -> Made:
    kinds = rng.sample(sorted(COPIED), 3)
    line, things = _in_sentence(language, rng, [each for kind in kinds for each in COPIED[kind]])
    others, _ = _in_sentence(language, rng, MOMENTS["dates"] + LONG, _COUNTED)
    return Made(f"{line} {others}", tuple(things))


def _letterless(_: str, rng: random.Random) -> Made:
    line = make(rng.choice(LETTERLESS), rng)
    return Made(line, parts=("", line))


def _decomposed(language: str, rng: random.Random) -> Made:
    line = rng.choice(TEXTS[language])
    if rng.random() < 0.5:  # with what is copied
        thing = make("/‹w›/Übung/‹w›ö‹d2›.txt", rng)
        return Made(unicodedata.normalize("NFD", f"{line} {thing}"), (unicodedata.normalize("NFD", thing),))
    return Made(unicodedata.normalize("NFD", line), parts=(line,))


def _invisible(language: str, rng: random.Random) -> Made:
    line = rng.choice(TEXTS[language])
    said = ""
    for c in line:
        said += rng.choice(_INVISIBLE) * (said[-1:].isalnum() and rng.random() < 0.1) + c
    before, after = (rng.choice(("", "\u200e", "\u200f")) for _ in range(2))
    return Made(f"{before}{said}{after}", parts=("", before, line, after))


def _spaces(language: str, rng: random.Random) -> Made:
    line = rng.choice(TEXTS[language])
    return Made(re.sub(" ", lambda _: rng.choice(_THIN + "   "), line), parts=(line,))


def _runs(language: str, rng: random.Random) -> Made:
    line = rng.choice(RUNS[language])
    marks = ".!?" if line[line.index("{") - 1].isalpha() else ".-=*~_#—·░"
    run = rng.choice(marks) * rng.randint(4, 40)
    texts = (re.sub(r"\w(?:.*\w)?", r"\\w.*", each) for each in line.split("{}"))
    pattern = re.escape(run).join(texts)
    return Made(line.replace("{}", run), pattern=pattern)


def _capitals(language: str, rng: random.Random) -> Made:
    line = rng.choice(TEXTS[language]).upper()
    return Made(line, pattern=f"(?!{re.escape(line)})[^a-zäöüß]*")


def _shouted(language: str, rng: random.Random) -> Made:
    line = rng.choice(SHOUTED[language])
    word = re.search("[A-Z]{3,}", line)[0]  # type: ignore[index]
    return Made(line, pattern=rf"(?=.*[a-z])(?!.*{word}).*\b[A-ZÄÖÜ]{{3,}}\b.*")


def _quotes(language: str, rng: random.Random) -> Made:
    here, there = rng.choice((('""', '""'), {"de": ("„“", "“”"), "en": ("“”", "„“")}[language]))
    line = f"{_SAYS[language]}{here[0]}{rng.choice(TEXTS[language])}{here[1]}"
    return Made(line, pattern='[^„“”"]*{}[^„“”"]*{}[^„“”"]*'.format(*there))


def _ends(language: str, rng: random.Random) -> Made:
    mark = rng.choice((",", ":", ";", " –", " - "))
    return Made(rng.choice(TEXTS[language])[:-1] + mark, pattern=f".*{re.escape(mark)}")


def _pairs(language: str, rng: random.Random) -> Made:
    name = rng.choice(WORDS)
    opening, closing = rng.choice((("%1$s", "%2$s"), (f"{{{name}}}", f"{{/{name}}}"), ("%s", "%s")))
    line = rng.choice(_PAIRS[language]).format(opening, closing)
    return Made(line, (opening, closing), pattern=rf".*{re.escape(opening)}[^\W\d].*\w{re.escape(closing)}.*")


def _glued(language: str, rng: random.Random) -> Made:
    templates = "{{#if ‹w›}}", "{{/if}}", "{‹w›}", "😀", "{% if ‹w› %}"
    first, *texts = rng.choice(_GLUED[language]).split("{}")
    line, pattern = first, _EDGES * bool(first)
    for text in texts:
        thing = make(rng.choice(templates), rng)
        line += thing + text
        pattern += re.escape(thing) + _EDGES * bool(text)
    return Made(line, pattern=pattern)


def _columns(language: str, rng: random.Random) -> Made:
    parts = [rng.choice(CELLS[language])]
    for cell in rng.sample(CELLS[language], rng.randint(1, 4)):
        parts += rng.choice(("\t", "   ", "    ", "\t\t", "\t12\t", "   4.50\t", "\t1.234  ")), cell
    return Made("".join(parts), parts=tuple(parts))


def _prefixes(language: str, rng: random.Random) -> Made:
    prefix, text = make(rng.choice(PREFIXES), rng), rng.choice(TEXTS[language])
    return Made(prefix + text, parts=("", prefix, text))


def _sentences(language: str, rng: random.Random) -> Made:
    parts = [rng.choice(TEXTS[language])]
    for text in rng.sample(TEXTS[language], rng.randint(1, 5)):
        parts += rng.choice((" ", "  ", "   ", "\t", "\xa0", " \u2009", "\u2003")), text
    return Made("".join(parts), parts=tuple(parts))


KINDS: Final[Mapping[str, Maker]] = {
    **{kind: _numbers(kind) for kind in NUMBERS},
    "dates": _moments("dates", _COUNTED),
    "times": _moments("times", _TIMED),
    **{kind: _copied(kind) for kind in COPIED},
    "mixed": _mixed,
    "letterless lines": _letterless,
    "decomposed letters": _decomposed,
    "invisible characters": _invisible,
    "spaces": _spaces,
    "runs of marks": _runs,
    "capitals": _capitals,
    "shouted words": _shouted,
    "quotation marks": _quotes,
    "marks at the end": _ends,
    "pairs": _pairs,
    "glued": _glued,
    "columns": _columns,
    "prefixes": _prefixes,
    "sentences": _sentences,
}


def made(language: str, kind: str, count: int, seed: int = 1) -> list[Made]:
    """Returns lines of a kind."""
    rng = random.Random(f"{language} {kind} {seed}")
    return [KINDS[kind](language, rng) for _ in range(count)]


class Fault(NamedTuple):
    """What is wrong with the translation of a line."""

    line: str
    translation: str
    what: list[str]


def find_faults(translator: Translator, lines: Iterable[Made], options: DecodingOptions) -> list[Fault]:
    """Returns what is wrong with translations of lines."""
    lines = list(lines)
    texts = dict.fromkeys(text for each in lines for text in (each.line, *each.parts[::2]))
    said = {text: each.text for text, each in zip(texts, translator.translate(texts, options), strict=True)}
    faults = (Fault(each.line, said[each.line], _faults(each, said)) for each in lines)
    return [fault for fault in faults if fault.what]


def _faults(each: Made, translations: Mapping[str, str]) -> list[str]:
    said = translations[each.line]
    joined = "".join(part if place % 2 else translations[part] for place, part in enumerate(each.parts))
    found = {
        "broken": "\ufffd" in said or "\n" in said,
        "digits": _digits(said) != _digits(each.line),
        "copied": any(said.count(thing) != each.line.count(thing) for thing in each.copied),
        "order": in_order(said) != in_order(each.line),
        "parts": bool(each.parts) and said != joined,
        "pattern": re.fullmatch(each.pattern or ".*", said, re.DOTALL) is None,
    }
    return [name for name, is_wrong in found.items() if is_wrong]


def _digits(text: str) -> Counter[str]:
    """Returns the numbers of a text without marks between digits, full hours with minutes, all to twelve."""
    text = re.sub(r"(?<![\d:.,])(?<!\d )(\d{1,2})(?= ?(?:[ap]\.? ?m\b(?! [A-Z])|Uhr))", r"\1:00", text)
    text = re.sub(r"(?<![\d:])(\d{1,2})(?=:\d\d)", lambda match: f"{int(match[1]) % 12}", text)
    text = re.sub(r"\b0(?=\d[./]\d)", "", text)
    return Counter(re.findall(r"\d+", re.sub(r"(?<=\d)[.,/'’](?=\d)", "", text)))
