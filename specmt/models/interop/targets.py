"""Which languages a Marian model translates, and the token that tells a multilingual one its target."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from specmt.errors import UsageError

_PAIRS: Final = (
    "aa:aar ab:abk af:afr ak:aka am:amh an:arg ar:ara as:asm av:ava ay:aym az:aze ba:bak be:bel bg:bul bi:bis "
    "bm:bam bn:ben bo:bod br:bre bs:bos ca:cat ce:che ch:cha co:cos cs:ces cv:chv cy:cym da:dan de:deu dv:div "
    "dz:dzo ee:ewe el:ell en:eng eo:epo es:spa et:est eu:eus fa:fas fi:fin fj:fij fo:fao fr:fra fy:fry ga:gle "
    "gd:gla gl:glg gn:grn gu:guj gv:glv ha:hau he:heb hi:hin hr:hrv ht:hat hu:hun hy:hye ia:ina id:ind ie:ile "
    "ig:ibo io:ido is:isl it:ita ja:jpn jv:jav ka:kat kk:kaz kl:kal km:khm kn:kan ko:kor ku:kur kw:cor ky:kir "
    "la:lat lb:ltz lg:lug li:lim ln:lin lo:lao lt:lit lv:lav mg:mlg mh:mah mi:mri mk:mkd ml:mal mn:mon mr:mar "
    "ms:msa mt:mlt my:mya nb:nob ne:nep nl:nld nn:nno no:nor nv:nav ny:nya oc:oci om:orm or:ori os:oss pa:pan "
    "pl:pol ps:pus pt:por qu:que rm:roh rn:run ro:ron ru:rus rw:kin sa:san sc:srd sd:snd se:sme sg:sag si:sin "
    "sk:slk sl:slv sm:smo sn:sna so:som sq:sqi sr:srp su:sun sv:swe sw:swa ta:tam te:tel tg:tgk th:tha ti:tir "
    "tk:tuk tl:tgl tn:tsn to:ton tr:tur ts:tso tt:tat ty:tah ug:uig uk:ukr ur:urd uz:uzb vi:vie vo:vol wa:wln "
    "wo:wol xh:xho yi:yid yo:yor zh:zho zu:zul"
)
_ISO: Final[Mapping[str, str]] = dict(pair.split(":") for pair in _PAIRS.split())
"""ISO 639-1 to 639-3: older OPUS-MT models name languages by the one, newer ones by the other."""

_CODE: Final = "[a-z]{2,3}(?:_[A-Za-z]+)?"
_NAME: Final = re.compile(rf"(?:^|[-/])({_CODE})-({_CODE})$")
_TOKEN: Final = re.compile(r">>(.+)<<")


def languages_of(name: str, record: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Returns the source and the target language of a model, as far as its files or its name say.

    :param name: such as ``opus-mt-de-en``
    :param record: the configuration of its tokenizer, with ``source_lang`` and ``target_lang`` if it has them
    """
    found = _NAME.search(name)
    source, target = found.groups() if found else (None, None)
    return _language(record.get("source_lang")) or source, _language(record.get("target_lang")) or target


def _language(code: object) -> str | None:
    is_one = isinstance(code, str) and re.fullmatch(_CODE, code) is not None
    return str(code) if is_one else None


def tokens_of(pieces: Collection[str]) -> list[str]:
    """Returns the pieces that tell a multilingual model its target."""
    return sorted(piece for piece in pieces if _TOKEN.fullmatch(piece))


def choose_token(tokens: Collection[str], *, token: str | None, language: str | None) -> str | None:
    """Returns the token that a model is to be told its target by; ``None`` for a model that needs none.

    :param tokens: those that the model has
    :param token: the one that is asked for, with or without ``>>`` and ``<<``; an empty one is none
    :param language: the target language
    :raises UsageError: there is no such token, or nothing says which.
    """
    if token is not None:
        wanted = token if not token or _TOKEN.fullmatch(token) else f">>{token}<<"
        if wanted and wanted not in tokens:
            raise UsageError(f"`target-token` must be {_listed(tokens)}, but is {token!r} instead.")
        return wanted or None
    if not tokens:
        return None
    codes = {_code(each): each for each in tokens}
    if language is None:
        raise UsageError(f"The model has several targets; name one with --to or --target-token: {_listed(tokens)}.")
    names = [language, _ISO.get(language, language), *(short for short, long in _ISO.items() if long == language)]
    for name in names:
        found = [code for code in codes if code == name] or [code for code in codes if code.startswith(f"{name}_")]
        if len(found) == 1:
            return codes[found[0]]
        if found:
            raise UsageError(
                f"The target {language!r} may be {_listed(codes[code] for code in found)}; "
                "name one with --target-token."
            )
    raise UsageError(
        f"The model has no target {language!r}; name one that it has with --to or --target-token: {_listed(tokens)}."
    )


def language_of(token: str) -> str:
    """Returns the language that a token stands for, by its short code if it has one."""
    code = _code(token)
    return next((short for short, long in _ISO.items() if long == code), code)


def _code(token: str) -> str:
    return token.removeprefix(">>").removesuffix("<<")


def _listed(tokens: Collection[str] | Any) -> str:
    return ", ".join(tokens) or "absent, since the model has no target tokens"
