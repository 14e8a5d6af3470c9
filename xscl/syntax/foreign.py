"""Hints for users of SQL, XPath and other languages: what to write instead of their syntax.

In: an unexpected token and its place. Out: a hint, if the token is a habit from another language.
Nothing here decides whether a text is accepted: hints are looked up after an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from xscl.syntax.durations import UNITS


@dataclass(frozen=True, slots=True)
class Habits:
    """Hints for one place of the grammar. The keys of `found` are unexpected tokens: a word in
    capitals, or the characters with which the token begins. Those of `before` are words that were
    read as a name, so that the token after them is the unexpected one; with -> before a word, if
    it was read as a variable."""

    found: Mapping[str, str]
    before: Mapping[str, str]


COMMENT = "a comment begins with --"
VARIABLE = "a variable is a letter or _, then letters, digits, _ and trailing primes: my_var, x1'"
_FOLLOWED = "write FOLLOWED BY, as in S//a FOLLOWED BY S//b"
_UNNAMED = "behind -> stands the name of a variable, as in S//a->x FOLLOWED BY S//b->y"
_JOIN = "blocks are joined by JOIN in any order, by FOLLOWED BY one after the other"
_PREDICATES = "predicates stand in WHERE or in the braces of a join"
_BRACES = "a predicate stands in braces behind its operator: S//a->x JOIN {x = y, 2 days} S//b->y"
_INNER = "there is one JOIN, and it finds pairs: S//a->x JOIN {x = y, 2 days} S//b->y"
_WITHIN = "a window is written WITHIN 2 days"
_WHERE = "a condition on the whole query is written WHERE"
_ABSENCE = "an absence is an item of its own: S//a FOLLOWED BY {1 h} NOT S//b"
_GROUP = "a group stands in parentheses: S//a FOLLOWED BY (S//b)+ FOLLOWED BY S//c"
_EITHER = "either of two is written S//a OR S//b, in a list in parentheses: (S//a OR S//b)"
_SEQUENCE = "a sequence is S//a FOLLOWED BY S//b, of what comes next S//a NEXT S//b"
_MOVING = "a moving window stands behind the pattern: GROUP BY x OVER 5 min"
_ELEMENT = "of the elements of a group write first(x), last(x), or prev(x) for the one before"
_EVERY = "every match is found: write the pattern alone"
_TWO = "write a query for each, separated by ;"
_NO_ORDER = "each match is published when it is found, so there is no order to ask for"
_NO_LIMIT = "every match is published, there is no limit to set"
_EXISTENCE = (
    "a path alone asks whether there is such a node: S//a[./b] or WHERE x/b; that there is none is "
    "S//a[not(./b)] or WHERE NOT x/b"
)
_PATTERN = "write contains(x, 'text'), starts-with(x, 'text') or matches(x, 'pattern')"
_NO_IF = "there is no if: write a query for each case"
_NO_DOLLAR = "names and numbers are written without $"
_NO_ESCAPE = 'a string that holds \' stands between " and ", there are no escapes'
_EQUAL = "equality is written = and inequality !="


def dates(window: str = "2 days", seconds: str = "172800") -> str:
    """How to write a distance in time: for `window`, whose length is `seconds`."""
    return (
        f"between documents it is a window: A FOLLOWED BY {{x = y, {window}}} B, or WITHIN"
        f" {window}; dates that they hold are compared in seconds: date(y) - date(x) < {seconds}"
    )


_DATES = dates()
NO_NUMBER = (
    "a window is a number and a unit, behind a comma or WITHIN: {x = y, 2 days}, WITHIN 2 days; "
    "dates that documents hold are compared in seconds: date(y) - date(x) < 172800"
)
_DATE = "a date is written date('2026-10-05')"
_SQL_CLAUSES = {
    **dict.fromkeys(["ORDER", "SORT"], _NO_ORDER),
    **dict.fromkeys(["LIMIT", "OFFSET", "FETCH", "TOP"], _NO_LIMIT),
    **dict.fromkeys(["UNION", "EXCEPT", "INTERSECT", "MINUS"], _TWO),
    "INTO": "results become a stream by PUBLISH name",
}

#: Typographic variants of the language's characters, and characters with a meaning elsewhere.
_ANYWHERE = {
    "\u2192": "write ->",
    "\u2018": "write '",
    "\u2019": "write '",
    "\u201c": 'write "',
    "\u201d": 'write "',
    "`": "write '",
    "\u2212": "write -",
    "\u2013": "write -",
    "\u2260": "write !=",
    "\u2264": "write <=",
    "\u2265": "write >=",
    "\u00ac": "write NOT",
    "\u00a0": "write a plain blank",
    "!": "write NOT or !=",
    "$": _NO_DOLLAR,
    ":=": "write = in a LET, : behind a label, -> before a variable",
    **dict.fromkeys(["#", "// ", "/*", "*/", "(:", "<!--"], COMMENT),
}

#: Where an operator or a clause follows a block, or a block an operator.
PATTERN = Habits(
    found={
        **_ANYWHERE,
        **_SQL_CLAUSES,
        **dict.fromkeys(["THEN", "FOLLOWS", "FOLLOW", "PRECEDES", "BEFORE"], _FOLLOWED),
        **dict.fromkeys(["FOLLOWEDBY", "FOLLOWED_BY", "FOLLOWED-BY", "BY", ">>"], _FOLLOWED),
        "AFTER": "write the earlier one first: S//b FOLLOWED BY S//a; matches that do not overlap"
        " are asked for by USING NON OVERLAPPING",
        "EVERY": _EVERY,
        "MATCH_RECOGNIZE": _SEQUENCE,
        "^": "a group of five is written (S//b){5}",
        "#": f"{COMMENT}; {_MOVING}",
        "AND": f"{_PREDICATES}; {_JOIN}",
        **dict.fromkeys(["&", "\u2227", ","], _JOIN),
        **dict.fromkeys(["INNER", "CROSS", "NATURAL"], _INNER),
        **dict.fromkeys(["LEFT", "RIGHT", "FULL", "OUTER"], _INNER),
        **dict.fromkeys(["ON", "USING"], _BRACES),
        **dict.fromkeys(["FOR", "IN", "DURING", "WITH", "WINDOW", "RANGE"], _WITHIN),
        **dict.fromkeys(["IF", "WHEN", "FILTER"], _WHERE),
        **dict.fromkeys(["NOT", "WITHOUT", "UNLESS", "!", "~"], _ABSENCE),
        "DEFINE": "what an element must be is a condition: WHERE p > prev(p)",
        **dict.fromkeys("*+", _GROUP),
        "?": f"{_GROUP}; one that may be absent is (S//b){{0,1}}",
        **dict.fromkeys(["|", "\u2228"], _EITHER),
        **dict.fromkeys(["=>", "~>"], "a variable is bound by ->, as in S//a->x"),
        "-": VARIABLE,
        ".": f"{VARIABLE}; a child is reached by /; {_MOVING}",
    },
    before={
        "ON": _BRACES,
        **dict.fromkeys(["->FOLLOWED", "->JOIN", "->NEXT", "->FOLD", "->OR"], _UNNAMED),
        **dict.fromkeys(["WITHOUT", "UNLESS"], _ABSENCE),
        **dict.fromkeys(["EVERY", "ANY"], _EVERY),
        **dict.fromkeys(["SEQ", "PATTERN", "SEQUENCE", "EVENT", "MATCH_RECOGNIZE"], _SEQUENCE),
        **dict.fromkeys(["SET", "DEFINE"], "a window is defined by LET T1 = 2 days"),
        **dict.fromkeys(
            ["NAMESPACE", "PREFIX", "DECLARE"],
            "a prefix is defined by LET NAMESPACE dc = 'http://...'",
        ),
        "CREATE": "results become a stream by PUBLISH: SELECT x FROM S//a->x PUBLISH name",
    },
)

#: Behind a window, a published name, a LET.
CLAUSE = Habits(
    found={
        **_ANYWHERE,
        **_SQL_CLAUSES,
        **dict.fromkeys(
            (unit.upper() for unit in UNITS if len(unit) > 2),
            "a window is written 2 days, in digits",
        ),
        **dict.fromkeys(["AND", "OR"], _PREDICATES),
        **dict.fromkeys(",*+", "a window is one number and one unit, such as 51 hours"),
        "(": _MOVING,
        "AT": "AT END stands behind PUBLISH name",
    },
    before={
        **dict.fromkeys(["AS", "TO", "INTO"], "the name directly follows: PUBLISH name"),
        "INTERVAL": "a window is written WITHIN 2 days, without INTERVAL",
    },
)

_OPERATORS = {
    "\\": _NO_ESCAPE,
    **dict.fromkeys(["==", "<>", "!=="], _EQUAL),
    "=>": "write >=",
    "=<": "write <=",
    **dict.fromkeys(["LIKE", "GLOB", "SIMILAR", "CONTAINS", "STARTS", "ENDS"], _PATTERN),
    "ILIKE": "write contains(lower-case(x), 'text')",
    **dict.fromkeys(
        ["~", "=~", "MATCHES", "REGEXP", "RLIKE"],
        "a regular expression is written matches(x, 'pattern')",
    ),
    "IN": "write x = 'a' OR x = 'b'",
    "BETWEEN": "write x >= 1 AND x <= 5",
    "IS": _EXISTENCE,
    "EQ": "write =",
    "NE": "write !=",
    "LT": "write <",
    "LE": "write <=",
    "GT": "write >",
    "GE": "write >=",
    "XOR": "write (p OR q) AND NOT (p AND q)",
    **dict.fromkeys(["&", "\u2227"], "write AND"),
    "\u2228": "write OR",
    "?": "a query has no parameters: write the value",
}
_AROUND = {
    "INTERVAL": _DATES,
    **dict.fromkeys(["DATE", "DATETIME", "TIMESTAMP"], _DATE),
    "EXISTS": _EXISTENCE,
    **dict.fromkeys(["AND", "OR"], "a predicate stands on either side of AND and of OR"),
}

#: In WHERE, in braces, in SELECT.
PREDICATE = Habits(
    found={
        **_ANYWHERE,
        **_SQL_CLAUSES,
        **_OPERATORS,
        "NOT": "NOT stands before the whole predicate: NOT (x = 'a')",
        "|": "write OR between predicates, and concat(x, y) to put strings together",
        "%": "the remainder is x mod y, and a number has no % sign",
        "^": "there are no powers: write x * x",
        "@": "an attribute is reached by x/@name",
        ":": "a child is reached by x/title, and functions have no prefix",
        "{": "braces stand behind JOIN and FOLLOWED BY, and in constructors: SELECT <a>{x}</a>",
        "THEN": "what follows stands in the pattern, before WHERE: S//a FOLLOWED BY S//b",
        **dict.fromkeys(["WHEN", "ELSE", "END"], _NO_IF),
    },
    before=_AROUND,
)

#: In [...].
FILTER = Habits(
    found={
        **_ANYWHERE,
        **_OPERATORS,
        "NOT": "write not(...) around the whole filter: [not(./a = 'x')]",
        "!": "write not(...) or !=",
        "|": "write or between whole filters: [./a = 'x' or ./b = 'x']",
        "%": "a number has digits and at most one point",
        "$": f"{_NO_DOLLAR}; a filter sees its own document alone: compare variables in WHERE",
        **dict.fromkeys(["THEN", "ELSE"], _NO_IF),
    },
    before={**_AROUND, "NOT": "write not(...)"},
)

#: Words between SELECT and its items.
SELECT = {
    "DISTINCT": "each match is published once: leave DISTINCT out",
    "ALL": "every match is published: leave ALL out",
    "TOP": _NO_LIMIT,
}

_CLOCK = "a query sees the times of documents alone: FOLLOWED BY, JOIN and WITHIN compare them"

#: Names that stand for values elsewhere, and would be variables here.
VALUES = {
    "NULL": _EXISTENCE,
    **dict.fromkeys(["NOW", "TODAY", "CURRENT_DATE", "CURRENT_TIMESTAMP", "SYSDATE"], _CLOCK),
    **dict.fromkeys(["TRUE", "FALSE"], "a condition stands alone: contains(x, 'a'), NOT (x = 'a')"),
}

_NAME = "the name of an element is its step, S//title; in a filter [local-name() = 'title']"
_ALONE = "a condition stands alone, without true() and false(): NOT contains(x, 'a')"

#: Functions of XPath and of SQL, in lower case.
FUNCTIONS = {
    **dict.fromkeys(["name", "local-name", "node-name"], _NAME),
    "namespace-uri": "a prefix says the namespace: LET NAMESPACE dc = 'http://...'; S//dc:creator",
    **dict.fromkeys(["data", "str", "text"], "a node is compared as its string: [./a = 'x']"),
    **dict.fromkeys(["true", "false"], _ALONE),
    **dict.fromkeys(["boolean", "exists"], "a path alone holds where there is such a node: [./a]"),
    **dict.fromkeys(["empty", "isnull"], "write [not(./a)]"),
    **dict.fromkeys(["trim", "strip", "ltrim", "rtrim"], "write normalize-space(...)"),
    **dict.fromkeys(["len", "length", "char_length"], "write string-length(...)"),
    **dict.fromkeys(["lower", "lcase", "tolower"], "write lower-case(...)"),
    **dict.fromkeys(["upper", "ucase", "toupper"], "write upper-case(...)"),
    **dict.fromkeys(["regexp", "regex", "rlike", "match"], "write matches(x, 'pattern')"),
    **dict.fromkeys(["like", "instr", "find"], "write contains(x, 'text')"),
    **dict.fromkeys(["int", "float", "double", "cast", "to_number"], "write number(...)"),
    **dict.fromkeys(["to_date", "datetime", "timestamp"], "write date(...)"),
    **dict.fromkeys(
        ["datediff", "date_diff", "date_add", "date_sub", "dateadd", "interval", "age"], _DATES
    ),
    **dict.fromkeys(
        ["now", "today", "current-date", "current-time", "current-datetime", "current_date"], _CLOCK
    ),
    **dict.fromkeys(["lag", "lead", "previous"], _ELEMENT),
    "replace": "translate(x, 'abc', 'xy') replaces characters, words(x) folds case and punctuation",
}

#: The namespaces of feeds, by the prefix that they usually have.
NAMESPACES = {
    "admin": "http://webns.net/mvcb/",
    "app": "http://www.w3.org/2007/app",
    "atom": "http://www.w3.org/2005/Atom",
    "cc": "http://web.resource.org/cc/",
    "content": "http://purl.org/rss/1.0/modules/content/",
    "creativeCommons": "http://backend.userland.com/creativeCommonsRssModule",
    "dc": "http://purl.org/dc/elements/1.1/",
    "dcterms": "http://purl.org/dc/terms/",
    "dct": "http://purl.org/dc/terms/",
    "feedburner": "http://rssnamespace.org/feedburner/ext/1.0",
    "fh": "http://purl.org/syndication/history/1.0",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "geo": "http://www.w3.org/2003/01/geo/wgs84_pos#",
    "georss": "http://www.georss.org/georss",
    "gml": "http://www.opengis.net/gml",
    "googleplay": "http://www.google.com/schemas/play-podcasts/1.0",
    "itunes": "http://www.itunes.com/dtds/podcast-1.0.dtd",
    "media": "http://search.yahoo.com/mrss/",
    "openSearch": "http://a9.com/-/spec/opensearch/1.1/",
    "opensearch": "http://a9.com/-/spec/opensearch/1.1/",
    "podcast": "https://podcastindex.org/namespace/1.0",
    "prism": "http://prismstandard.org/namespaces/basic/2.0/",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "rss": "http://purl.org/rss/1.0/",
    "slash": "http://purl.org/rss/1.0/modules/slash/",
    "source": "http://source.scripting.com/",
    "svg": "http://www.w3.org/2000/svg",
    "sy": "http://purl.org/rss/1.0/modules/syndication/",
    "thr": "http://purl.org/syndication/thread/1.0",
    "trackback": "http://madskills.com/public/xml/rss/module/trackback/",
    "wfw": "http://wellformedweb.org/CommentAPI/",
    "xhtml": "http://www.w3.org/1999/xhtml",
    "xlink": "http://www.w3.org/1999/xlink",
    "yt": "http://www.youtube.com/xml/schemas/2015",
}

#: What to write instead of axes that do not lead down, where only those that do are allowed.
AXES = {
    "descendant-or-self": "descendants are reached by //",
    "self": "the node itself is written ., and a filter may ask [self::a]",
    "namespace": "namespaces are no nodes here: a prefix says the namespace of a name",
    **dict.fromkeys(
        ["..", "parent", "ancestor", "ancestor-or-self"],
        "begin with the outer element, S//outer[./inner = 'x'], or ask a filter: S//inner[../@id]",
    ),
    **dict.fromkeys(
        ["following-sibling", "preceding-sibling", "following", "preceding"],
        "ask a filter for what stands beside: S//b[preceding-sibling::a]",
    ),
}

# A comment that was read as a path: `// like this` at the beginning of a statement or behind a
# block, and `/* like this`. Blocks are seldom written with a blank behind their slashes.
_COMMENT = re.compile(r"(?:^|;)\s*//[ \t]|[/\])}>][^\s]*[ \t]+//[ \t]|(?:^|[\s;])/\*\s*$")
_WORD_BEFORE = re.compile(r"(?:^|(->)\s*|[\s;:({,\[])([A-Za-z]+)\s*$")
_SEARCHED = 200  # characters before the token, so that a long line costs no more than a short one


def habit(habits: Habits, text: str, last: int, start: int, token: str) -> str | None:
    """The hint for the token at `start`, None if it is no known habit; `last` is the end of the
    token before it."""
    low = max(0, last - _SEARCHED)
    before = text[text.rfind("\n", low, last) + 1 or low : min(start, last + _SEARCHED)]
    if _COMMENT.search(before):
        return COMMENT
    word = token[:1].isalnum()
    keys = [token.upper()]
    if not word:
        # `||` and `/*` are not tokens of this language, so they are read from the text.
        keys = [text[start : start + size] for size in range(4, len(token) - 1, -1)]
    if start == last and start > 0:
        if hint := _adjacent(before, text[start : start + 2]):
            return hint
        if len(token) == 1:  # of `==` and `(:` the second character is the unexpected token
            keys.insert(0, text[start - 1 : start + 1])
    previous = _WORD_BEFORE.search(before)
    misread = None
    if previous:
        arrow, name = previous[1] or "", previous[2].upper()
        misread = habits.before.get(arrow + name) or habits.before.get(name)
    known = next((habits.found[key] for key in keys if key in habits.found), None)
    return (misread or known) if word else (known or misread)


def _adjacent(before: str, behind: str) -> str | None:
    """The hint for a token directly behind a string or a number that ended too early."""
    if re.search(r"(?<![\w'])[0-9][0-9.]*$", before) and re.match(r"[\w.€]|,[0-9]", behind):
        return "a number has digits and at most one point, and nothing else"
    if before[-1:] in ("'", '"') and re.match(r"[\w'\"]", behind):
        closed = before.count(before[-1]) % 2 == 0
        return _NO_ESCAPE if closed else "primes stand at the end of a variable"
    return None
