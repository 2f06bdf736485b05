"""Lines that a translator of real text meets: what they hold that must come out as it went in, and odd shapes."""

from __future__ import annotations

from typing import Final

SENTENCES: Final = {
    "de": (
        "Die Anleitung liegt unter {} bereit.",
        "Bitte senden Sie Ihre Antwort bis Freitag an {}.",
        "Ich habe {} gestern gelesen.",
        "Wir benutzen {} seit zwei Jahren.",
        "Wenn {} fehlt, startet der Server nicht.",
        "{} steht in der ersten Zeile.",
        "Warum ist {} noch nicht fertig?",
        "Meine Schwester hat mir {} geschickt.",
        "Der Fehler tritt auf, sobald {} geändert wird.",
        "Klicken Sie auf {}, um fortzufahren.",
    ),
    "en": (
        "The manual can be found at {}.",
        "Please send your answer to {} by Friday.",
        "I read {} yesterday.",
        "We have been using {} for two years.",
        "If {} is missing, the server does not start.",
        "{} is on the first line.",
        "Why is {} not ready yet?",
        "My sister sent me {}.",
        "The error occurs as soon as {} is changed.",
        "Click {} to continue.",
    ),
}
"""Sentences with a gap, by language."""

LITERALS: Final = {
    "address": ("https://example.org/a/b?x=1&y=2#top", "http://www.wetter-heute.at/karte.html"),
    "e-mail": ("petra.lang@firma-nord.de", "support+42@mail.example.com"),
    "placeholder": ("{user_name}", "%s", "%(total)d", "${HOME}"),
    "tag": ("<b>42</b>", '<a href="/help">FAQ</a>'),
    "number": ("3.14.2", "0049-30-1234567"),
    "path": ("/etc/ssh/sshd_config", "C:\\Temp\\log.txt"),
    "identifier": ("max_retries", "getUserById()"),
    "emoji": ("🎉", "👍🏽"),
    "script": ("Москва", "東京"),
}
"""What must come out as it went in, by kind."""


def copies(language: str) -> list[tuple[str, str, str]]:
    """Returns 200 lines of a language, each with its kind and what it must keep."""
    return [
        (kind, literal, sentence.replace("{}", literal))
        for kind, literals in LITERALS.items()
        for literal in literals
        for sentence in SENTENCES[language]
    ]


SHAPES: Final = {
    "de": {
        "capitals": "DAS PROGRAMM WURDE ERFOLGREICH INSTALLIERT.",
        "no full stop": "Der Hund schläft unter dem Tisch",
        "list": "- Datei öffnen",
        "numbered": "3. Starten Sie den Computer neu.",
        "short form": "Viele Tiere, z. B. Hunde und Katzen, leben bei Menschen.",
        "ordinal": "Am 3. Oktober ist ein Feiertag.",
        "quotes": "Er sagte: „Ich komme morgen.“",
        "tab": "Name\tAdresse",
        "thousands": "Die Stadt hat 1.234.567 Einwohner.",
        "decimal": "Das Brot kostet 3,50 Euro.",
        "tags": "<p>Das ist ein <em>einfacher</em> Satz.</p>",
    },
    "en": {
        "capitals": "THE PROGRAM WAS INSTALLED SUCCESSFULLY.",
        "no full stop": "The dog is sleeping under the table",
        "list": "- Open the file",
        "numbered": "3. Restart the computer.",
        "short form": "Many animals, e.g. dogs and cats, live with people.",
        "ordinal": "The 3rd of October is a holiday.",
        "quotes": 'He said, "I will come tomorrow."',
        "tab": "Name\tAddress",
        "thousands": "The city has 1,234,567 inhabitants.",
        "decimal": "The bread costs 3.50 euros.",
        "tags": "<p>This is a <em>simple</em> sentence.</p>",
    },
}
"""Lines of unusual shape, by language."""
