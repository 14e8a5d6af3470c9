"""The two normal forms of texts for joining news items, `url` and `words`; and how long a text that
a query makes may be."""

from __future__ import annotations

import re
import unicodedata

LONGEST = 16 << 20
"""The characters that a text may have which `concat` makes: all other functions only shorten."""


class TextTooLong(ValueError):
    """A text is longer than it may be; it was not made."""


# RFC 3986, appendix B, for URLs with an authority; the authority split into user, host and port.
_URL = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]*)://"
    r"([^\s/?#@]*@)?(\[[^\s\]/?#@]*\]|[^\s/?#@:]*)(?::([0-9]*))?"
    r"(/[^\s?#]*|)(?:\?([^\s#]*))?(?:#\S*)?"
)
_DEFAULT_PORTS = {"http": "80", "https": "443"}

# Parameters that say how a reader came to a page and never identify the page: families by prefix,
# others by name. Short names that some sites use for content (ref, s, r) are not among them.
_TRACKING_PREFIXES = (
    *("utm_", "mtm_", "pk_", "piwik_", "matomo_", "hsa_", "vero_", "oly_"),
    *("at_medium", "at_campaign", "at_custom", "at_link_", "at_bbc_", "at_ptr_", "at_format"),
)
_TRACKING = frozenset(
    [
        *("fbclid", "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "msclkid", "yclid", "twclid"),
        *("ttclid", "li_fat_id", "igshid", "igsh", "mc_cid", "mc_eid", "mkt_tok", "ref_src"),
        *("ref_url", "cmpid", "icid", "ocid", "ncid", "s_cid", "_ga", "_gl", "_bhlid", "_hsenc"),
        *("_hsmi", "ns_mchannel", "ns_source", "ns_campaign", "ns_linkname", "ns_fee", "xtor"),
        *("wt_mc", "wt.mc_id", "traffic_source", "spm", "ftag", "guccounter", "guce_referrer"),
        *("guce_referrer_sig", "rss_medium", "rss_source"),
    ]
)


def url(text: str) -> str:
    """The URL without tracking parameters, fragment, default port and trailing slashes, its scheme
    and host in lower case; the other parameters stay as they are, in their order.

    A text that is no absolute URL, or contains blanks, is only stripped. The function is
    idempotent.
    """
    text = text.strip()
    found = _URL.fullmatch(text)
    if found is None:
        return text
    scheme, user, host, port, path, query = found.groups()
    scheme = scheme.lower()
    if port and port != _DEFAULT_PORTS.get(scheme):
        host += ":" + port
    parameters = [part for part in (query or "").split("&") if part and not _is_tracking(part)]
    tail = "?" + "&".join(parameters) if parameters else ""
    return f"{scheme}://{user or ''}{host.lower()}{path.rstrip('/')}{tail}"


def _is_tracking(parameter: str) -> bool:
    name = parameter.partition("=")[0].lower()
    return name in _TRACKING or name.startswith(_TRACKING_PREFIXES)


class _Folding(dict[int, str | int]):
    """A table for `str.translate`, filled on demand: punctuation and blanks become a blank."""

    def __missing__(self, code: int) -> str | int:
        blank = unicodedata.category(chr(code))[0] in "PZC"
        value: str | int = " " if blank else code
        self[code] = value
        return value


_FOLDING = _Folding()


def words(text: str) -> str:
    """The text folded to lower case, its words separated by one blank, without punctuation.

    Punctuation are the characters of Unicode's categories P, so symbols such as $ and + stay, and
    "don't" is two words. Case is folded by Unicode's rules, so that STRASSE and Straße are equal.
    """
    return " ".join(text.casefold().translate(_FOLDING).split())
