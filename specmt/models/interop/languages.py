"""Languages: the short codes that people type, the long ones of NLLB, and the target tokens of Marian models."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any, Final

from specmt.errors import UsageError
from specmt.languages import ISO, find_code

_CODES: Final = """
af:afr_Latn ak:aka_Latn am:amh_Ethi ar:arb_Arab as:asm_Beng ay:ayr_Latn az:azj_Latn/azb_Arab ba:bak_Cyrl be:bel_Cyrl
bg:bul_Cyrl bm:bam_Latn bn:ben_Beng bo:bod_Tibt bs:bos_Latn ca:cat_Latn cs:ces_Latn cy:cym_Latn da:dan_Latn
de:deu_Latn dz:dzo_Tibt ee:ewe_Latn el:ell_Grek en:eng_Latn eo:epo_Latn es:spa_Latn et:est_Latn eu:eus_Latn
fa:pes_Arab ff:fuv_Latn fi:fin_Latn fj:fij_Latn fo:fao_Latn fr:fra_Latn ga:gle_Latn gd:gla_Latn gl:glg_Latn
gn:grn_Latn gu:guj_Gujr ha:hau_Latn he:heb_Hebr hi:hin_Deva hr:hrv_Latn ht:hat_Latn hu:hun_Latn hy:hye_Armn
id:ind_Latn ig:ibo_Latn is:isl_Latn it:ita_Latn ja:jpn_Jpan jv:jav_Latn ka:kat_Geor kg:kon_Latn ki:kik_Latn
kk:kaz_Cyrl km:khm_Khmr kn:kan_Knda ko:kor_Hang kr:knc_Arab/knc_Latn ks:kas_Arab/kas_Deva ku:kmr_Latn/ckb_Arab
ky:kir_Cyrl lb:ltz_Latn lg:lug_Latn li:lim_Latn ln:lin_Latn lo:lao_Laoo lt:lit_Latn lv:lvs_Latn mg:plt_Latn
mi:mri_Latn mk:mkd_Cyrl ml:mal_Mlym mn:khk_Cyrl mr:mar_Deva ms:zsm_Latn mt:mlt_Latn my:mya_Mymr nb:nob_Latn
ne:npi_Deva nl:nld_Latn nn:nno_Latn no:nob_Latn/nno_Latn ny:nya_Latn oc:oci_Latn om:gaz_Latn or:ory_Orya pa:pan_Guru
pl:pol_Latn ps:pbt_Arab pt:por_Latn qu:quy_Latn rn:run_Latn ro:ron_Latn ru:rus_Cyrl rw:kin_Latn sa:san_Deva
sc:srd_Latn sd:snd_Arab sg:sag_Latn si:sin_Sinh sk:slk_Latn sl:slv_Latn sm:smo_Latn sn:sna_Latn so:som_Latn
sq:als_Latn sr:srp_Cyrl ss:ssw_Latn st:sot_Latn su:sun_Latn sv:swe_Latn sw:swh_Latn ta:tam_Taml te:tel_Telu
tg:tgk_Cyrl th:tha_Thai ti:tir_Ethi tk:tuk_Latn tl:tgl_Latn tn:tsn_Latn tr:tur_Latn ts:tso_Latn tt:tat_Cyrl
tw:twi_Latn ug:uig_Arab uk:ukr_Cyrl ur:urd_Arab uz:uzn_Latn vi:vie_Latn wo:wol_Latn xh:xho_Latn yi:ydd_Hebr
yo:yor_Latn zh:zho_Hans/zho_Hant zu:zul_Latn
"""
_LONG: Final = {short: codes.split("/") for short, codes in (pair.split(":") for pair in _CODES.split())}
"""What codes of ISO 639-1 stand for in NLLB: usually one language in one script, sometimes several."""

_SHORT: Final = {long: short for short, long in ISO.items()}

_CODE: Final = "[a-z]{2,3}(?:_[A-Za-z]+)?"
_NAME: Final = re.compile(rf"(?:^|[-/])({_CODE})-({_CODE})$")
_SIDE_BY_SIDE: Final = [
    re.compile(rf"([a-z]{{{length}}}(?:_[a-z]{{4}})?)-?([a-z]{{2,3}}(?:_[a-z]{{4}})?)") for length in (2, 3)
]
"""Two codes, the first of two or three letters."""

_TOKEN: Final = re.compile(r">>(.+)<<")


def find_language(code: str, known: Collection[str]) -> str:
    """Returns the code, of those that a model knows, that a long or a short one stands for."""
    if code not in known:
        code = find_code(code, {*known, *_LONG}) or code
    if code in known:
        return code
    meant = [long for long in _LONG.get(code, ()) if long in known]
    if re.fullmatch("[a-z]{3}", code):
        meant = sorted(each for each in known if each.startswith(f"{code}_"))
    if not meant:
        near = get_close_matches(code, sorted({*known, *_LONG}), n=3, cutoff=0.5)
        hint = f" Near it are {', '.join(near)}." if near else ""
        raise UsageError(f"The model knows no language {code!r}; its codes look like {min(known)!r}.{hint}")
    if len(meant) > 1:
        raise UsageError(f"The language {code!r} may be {' or '.join(meant)}; name one of them.")
    return meant[0]


def shorten(code: str) -> str:
    """Returns the short code that stands for a long one and for no other, or else the long one itself."""
    return next((short for short, long in _LONG.items() if long == [code]), code)


def languages_of(name: str, record: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Returns the source and the target language of a model, as far as its files or its name tell.

    :param name: such as ``opus-mt-de-en``
    :param record: the configuration of its tokenizer, with ``source_lang`` and ``target_lang`` if it has them
    """
    found = _NAME.search(name)
    source, target = found.groups() if found else (None, None)
    return _language(record.get("source_lang")) or source, _language(record.get("target_lang")) or target


def split_pair(text: str) -> tuple[str, str] | None:
    """Returns the languages that stand side by side in a name, such as ``deen``, ``hbsen``, ``en-zh_hant``.

    ``None`` if they are none. One of two letters, as English, tells where the other begins.
    """
    known = {*ISO, *ISO.values(), "hbs"}  # Serbo-Croatian
    pairs = [found.groups() for pattern in _SIDE_BY_SIDE if (found := pattern.fullmatch(text))]
    pairs = [pair for pair in pairs if {code.partition("_")[0] for code in pair} & known]
    best = sorted(pairs, key=lambda pair: sum(code.partition("_")[0] in known for code in pair))[-1:]
    return (_tagged(best[0][0]), _tagged(best[0][1])) if best else None


def name_languages(named: tuple[str | None, str | None], where: object) -> tuple[str, str]:
    """Returns the source and the target language of a model, which are both named.

    :param where: what to name in errors
    """
    source, target = named
    if source is None or target is None:
        option, side = ("--from", "source") if source is None else ("--to", "target")
        raise UsageError(f"{where}: nothing says what the {side} language is; name it with {option}.")
    return source, target


def _tagged(code: str) -> str:
    """Returns a code as it is written elsewhere: ``de`` for ``deu``, ``zh-Hant`` for ``zh_hant``."""
    language, _, script = code.partition("_")
    short = _SHORT.get(language, language)
    return f"{short}-{script.title()}" if script else short


def _language(code: object) -> str | None:
    return code if isinstance(code, str) and re.fullmatch(_CODE, code) else None


def tokens_of(pieces: Collection[str]) -> list[str]:
    """Returns the pieces that tell a multilingual model its target."""
    return sorted(piece for piece in pieces if _TOKEN.fullmatch(piece))


def choose_token(tokens: Collection[str], *, token: str | None, language: str | None) -> str | None:
    """Returns the token that selects the target language; ``None`` for a model that needs none.

    :param tokens: those that the model has
    :param token: the one that is asked for, with or without ``>>`` and ``<<``; an empty one is none
    :param language: the target language
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
    language = find_code(language, {*codes, *ISO}) or language
    for name in (language, ISO.get(language, language), _SHORT.get(language, language)):
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
    return _SHORT.get(_code(token), _code(token))


def _code(token: str) -> str:
    return token.removeprefix(">>").removesuffix("<<")


def _listed(tokens: Collection[str] | Any) -> str:
    return ", ".join(tokens) or "absent, since the model has no target tokens"
