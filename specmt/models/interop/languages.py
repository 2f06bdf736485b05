"""Language codes: the short ones that people type, and the long ones that NLLB has."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches
from typing import Final

from specmt.errors import UsageError

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


def find_language(code: str, known: Collection[str]) -> str:
    """Returns the code, of those that a model knows, that a long or a short one stands for.

    :raises UsageError: it stands for none, or for several.
    """
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
