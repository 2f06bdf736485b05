"""Columns of a line, and the prefixes of logs, chats, quotes and lists: layout made of visible characters."""

from __future__ import annotations

import re
from typing import Final

from specmt.text.segment import CLOSERS, Segment

_GAP: Final = re.compile(r"(?<=\S)(?:\s{2,}|\t)(?=\S)")
_ENDS: Final = ".!?…"

# What a German number with a full stop before it is an ordinal of, more often than a list mark.
_COUNTED: Final = """
Januar|Jänner|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember|Jan|Feb|Apr|Jun|Jul|Aug|Sept?
|Okt|Nov|Dez|Montag|Dienstag|Mittwoch|Donnerstag|Freitag|Samstag|Sonntag|Weihnachts(?:feier)?tag|Advent|Tag|Woche|Monat
|Quartal|Halbjahr|Jahr|Jahrzehnt|Jahrhundert|Jahrtausend|Jahrestag|Geburtstag|Hochzeitstag|Todestag|Jubiläum|Liga
|[A-Z]\\w{1,20}liga|FC|FSV|HSV|SC|SSV|SV|TSV|VfB|VfL|Spieltag|Halbzeit|Minute|Runde|Platz|Rang|Preis|Weltkrieg|Armee
|Division|Bataillon|Regiment|Klasse|Stock|Stockwerk|Etage|Obergeschoss|Untergeschoss|Auflage|Ausgabe|Band|Teil|Kapitel
|Abschnitt|Absatz|Bürgermeister(?:in)?|Vorsitzende[rn]?|Senat|Kammer|Zivilsenat|Strafsenat|Lesung|Mal|Gang|Grad|Staffel
|Semester|Sinfonie|Symphonie|Internationale[rs]?|Deutsche[rs]?|Bundes\\w{1,20}|Buch|Akt|und|oder|bis|sowie|bzw
"""
_LEVEL: Final = r"\[?(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERR(?:OR)?|CRIT(?:ICAL)?|FATAL|ALERT|EMERG)\]?:?"
_CLOCK: Final = r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:\ ?[APap]M)?(?:Z|\ ?[+-]\d\d:?\d\d)?"
_DATE: Final = r"""(?:\d{4}[-/]\d\d[-/]\d\d|\d{1,2}[./]\d{1,2}[./]\d{2,4}
    |(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\ )?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\ {1,2}\d{1,2})"""
_MOMENT: Final = rf"""(?: \[(?:{_DATE},?[\ T])?{_CLOCK}(?:\ \d{{4}})?\]
    | {_DATE}(?:,?\ |T){_CLOCK}(?!\w) | {_CLOCK}(?=\ [<\[]) )"""
"""A date and a time, or a time in brackets or before what is in brackets."""

_PROGRAM: Final = (
    r"(?:[\w.-]{1,60}\ )?[\w./-]{1,60}\[\d{1,9}\]:|[A-Za-z]\w{0,40}(?:\.\w{1,40}){1,8}:?|\w{1,40}(?=\ -\ [A-Z]{4})"
)
"""A process, perhaps with its host, a name with full stops inside, or one before a level."""

_SPEAKER: Final = r"""(?!(?i:Achtung|Error|Fehler|Hinweis|Info|Note|Tipp?|Warning|Warnung|Wichtig):)
    [\w.@+~-]{1,40}(?:\ [\w.@+~-]{1,40}){0,2}:"""
_LOG: Final = rf"""{_MOMENT}\s{{1,4}}(?:[-–|]\s)?
      (?:(?:(?:{_LEVEL}|\[[^\[\]]{{1,60}}\]:?|{_PROGRAM})(?:\s[-–|])?\s{{1,4}}){{1,4}}|(?:<[^\s<>]{{1,40}}>:?|{_SPEAKER})\s)?
    | \[(?i:debug|info|notice|warning|warn|error|fatal)\]:?\s{{1,4}}
    | <(?!/)[\w|^`.@+~-]{{1,30}}>\s(?!.{{0,1000}}</)"""
_MARK: Final = r">(?!=)\s?|(?:\#{1,6}|//[/!]?|/\*{1,2}|--|;{1,2})\s{1,8}"
_BULLET: Final = r"[-*+•‣◦▪●○■□►–—·]\s{1,8}(?![-\s\d])(?:\[[ xX]\]\s)?|[☐☑☒✓✔✗✘]\s{1,8}"
_NUMBER: Final = r"\(?(?:[0-9]{1,3}\.?|[A-Za-z]|[ivx]{1,5})\)\s+|[0-9]{1,2}(?:\.[0-9]{1,2}){2,4}\.?\s+(?=[A-ZÄÖÜ])"
_MARKS: Final = re.compile(rf"\s*(?:{_MARK})*", re.VERBOSE)
_SIGN: Final = re.compile(r"[\[<]|\d:\d\d")
"""What logs and chats all have."""

_ITEM: Final = re.compile(rf"(?:{_BULLET})?(?:{_NUMBER}|(?P<ordinal>[0-9]{{1,3}}\.\s+(?![-–\s\d])))?", re.VERBOSE)


def split_columns(text: str) -> list[Segment]:
    """Splits a line at tabs and runs of two spaces or more between words.

    Two spaces are none behind the end of a sentence, nor by mistake in the middle of one: in a text with a full stop at
    its end, behind three words, or two and before a small letter.
    """
    cells: list[Segment] = []
    start = 0
    for gap in _GAP.finditer(text):
        left, right = gap.span()
        if right - left == 2 and "\t" not in gap[0] and _is_prose(text, start, left, right):
            continue
        cells.append((text[start:left], gap[0]))
        start = right
    return [*cells, (text[start:], "")]


def split_prefix(text: str, language: str = "de") -> tuple[str, str]:
    """Splits a line into a prefix that is copied, with the space around it, and the rest.

    Prefixes are indentation, marks of quotes, comments, headings and lists, and the times, levels and names of logs and
    chats. A German number with a full stop is one where no noun follows that ordinals have (“1. Mai ist Feiertag”).
    """
    end = _MARKS.match(text).end()  # type: ignore[union-attr]
    # Two patterns take long to compile and few lines ask for them: `re` keeps them from the first that does.
    if _SIGN.search(text, end) and (log := re.compile(_LOG, re.VERBOSE).match(text, end)):
        end = log.end()
    if item := _ITEM.match(text, end):
        end = item.end()
        is_german = language[:2].lower() == "de"
        if item["ordinal"] and is_german and re.compile(rf"(?:{_COUNTED})\b", re.VERBOSE).match(text, end):
            end = item.start("ordinal")
    return text[:end], text[end:]


def _is_prose(text: str, start: int, left: int, right: int) -> bool:
    before = text[max(start, left - 8) : left].rstrip(CLOSERS)
    if before.endswith(tuple(_ENDS)):
        return True
    if not text[-8:].rstrip(CLOSERS + " ").endswith(tuple(_ENDS)):
        return False
    return len(text[max(start, left - 48) : left].split()) >= 3 - text[right].islower()
