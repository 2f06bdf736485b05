"""Codes of languages, in the spelling of whoever writes them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from specmt.errors import UsageError

_PAIRS: Final = """
aa:aar ab:abk af:afr ak:aka am:amh an:arg ar:ara as:asm av:ava ay:aym az:aze ba:bak be:bel bg:bul bi:bis bm:bam bn:ben
bo:bod br:bre bs:bos ca:cat ce:che ch:cha co:cos cs:ces cv:chv cy:cym da:dan de:deu dv:div dz:dzo ee:ewe el:ell en:eng
eo:epo es:spa et:est eu:eus fa:fas fi:fin fj:fij fo:fao fr:fra fy:fry ga:gle gd:gla gl:glg gn:grn gu:guj gv:glv ha:hau
he:heb hi:hin hr:hrv ht:hat hu:hun hy:hye ia:ina id:ind ie:ile ig:ibo io:ido is:isl it:ita ja:jpn jv:jav ka:kat kk:kaz
kl:kal km:khm kn:kan ko:kor ku:kur kw:cor ky:kir la:lat lb:ltz lg:lug li:lim ln:lin lo:lao lt:lit lv:lav mg:mlg mh:mah
mi:mri mk:mkd ml:mal mn:mon mr:mar ms:msa mt:mlt my:mya nb:nob ne:nep nl:nld nn:nno no:nor nv:nav ny:nya oc:oci om:orm
or:ori os:oss pa:pan pl:pol ps:pus pt:por qu:que rm:roh rn:run ro:ron ru:rus rw:kin sa:san sc:srd sd:snd se:sme sg:sag
si:sin sk:slk sl:slv sm:smo sn:sna so:som sq:sqi sr:srp su:sun sv:swe sw:swa ta:tam te:tel tg:tgk th:tha ti:tir tk:tuk
tl:tgl tn:tsn to:ton tr:tur ts:tso tt:tat ty:tah ug:uig uk:ukr ur:urd uz:uzb vi:vie vo:vol wa:wln wo:wol xh:xho yi:yid
yo:yor zh:zho zu:zul
"""
ISO: Final[Mapping[str, str]] = dict(pair.split(":") for pair in _PAIRS.split())
"""ISO 639-1 to 639-3."""

_CODE: Final = re.compile(r"[a-z]{2,3}(?:-[a-z0-9]{2,8})*")
_KNOWN: Final = frozenset((*ISO, *ISO.values()))


def is_code(text: str) -> bool:
    """Whether a text is the code of a language, as ``de``, ``pt-BR`` and ``deu_Latn``."""
    return _CODE.fullmatch(_plain(text)) is not None and primary(text) in _KNOWN


def find_code(code: str, known: Collection[str]) -> str | None:
    """Returns which of the known codes is meant, as ``en`` by ``EN-GB``; ``None`` if it is none of them."""
    wanted, spelt = _plain(code), {_plain(each): each for each in known}
    return spelt.get(wanted) or spelt.get(primary(code))


def primary(code: str) -> str:
    """Returns the language of a code such as ``de-AT``."""
    return _plain(code).partition("-")[0]


def check_pair(source: str | None, target: str | None) -> None:
    """
    :raises UsageError: both languages are the same.
    """
    if source is not None and target is not None and primary(source) == primary(target):
        raise UsageError(f"`to` must be another language than `from`, {source}, but is {target!r} instead.")


def _plain(code: str) -> str:
    return code.strip().replace("_", "-").lower()
