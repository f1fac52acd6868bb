"""Words of questions and of identifiers: tokens, stems, likeness, and closed lists of English words."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import snowballstemmer

TokenKind = Literal["word", "number", "quoted", "mark"]

_STEMMER = snowballstemmer.stemmer("english")
_TOKEN = re.compile(
    r"""
    "(?P<double>[^"\n]*)"
  | “(?P<curly>[^”\n]{0,200}+)”
  | ‘(?P<curly1>[^’\n]{0,200}+)’
  | `(?P<tick>[^`\n]*)`
  | (?<![^\W_])'(?P<single>[^'\n]*(?:'[^\W\d_][^'\n]*)?)'(?![^\W_])
  | (?P<date>\d{4}[-/]\d{1,2}[-/]\d{1,2}(?:[ T]\d{1,2}:\d{2}(?::\d{2})?)?|\d{1,2}/\d{1,2}/\d{2,4})
  | (?P<number>-?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w])|-?\d+(?:\.\d+)?(?![^\W_]|[-/]\w))
  | (?P<owner>['’]s\b|(?<=s)['’](?=\s))
  | (?P<word>[^\W_](?:[\w]|[-./&'’@](?=[^\W_]))*)
  | (?P<mark>[,.;:?!()%$])
    """,
    re.VERBOSE,
)
_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[^\W\d_A-Z]+|[A-Z]+|\d+")
_SUFFIX = re.compile(r"(n['’]t|['’]s|['’])$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a question."""

    text: str  # as written; for a quoted token what stands between the quotes, for a number its digits
    lower: str
    stem: str  # stem of `text`; "" for everything but words
    # a date is "quoted", because SQLite keeps dates as text; number words up to twelve are "number"
    kind: TokenKind


def tokenize(text: str) -> tuple[Token, ...]:
    """Split a question into tokens; text past 4,000 characters is not looked at."""
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text[:4000]):
        group = match.lastgroup or "mark"
        found = match.group(group)
        if group in ("double", "curly", "curly1", "tick", "single", "date"):
            plain = found.strip(" .,")
            if plain:
                tokens.append(Token(plain, plain.lower(), "", "quoted"))
        elif group == "number":
            digits = found.replace(",", "")
            tokens.append(Token(digits, digits, "", "number"))
        elif group in ("owner", "mark"):
            tokens.append(_mark("'s" if group == "owner" else found))
        else:
            tokens.extend(_word_tokens(found))
    return tuple(tokens)


def _mark(text: str) -> Token:
    return Token(text, text, "", "mark")


def _word_tokens(found: str) -> list[Token]:
    """Return a word without its "'s" or "n't", and what was cut off as a token of its own."""
    suffix = _SUFFIX.search(found)
    word = found[: suffix.start()] if suffix else found
    lower = word.lower()
    if lower in NUMBER_WORDS:
        return [Token(NUMBER_WORDS[lower], lower, "", "number")]
    first = Token(word, lower, stem(lower), "word")
    if suffix is None:
        return [first]
    return [first, Token("not", "not", "not", "word") if suffix[0][0] in "nN" else _mark("'s")]


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Return the Snowball stem of an English word, of irregular forms that of their base.

    >>> stem("countries") == stem("country"), stem("produced") == stem("produces")
    (True, True)
    """
    word = word.lower().replace("e-mail", "email")
    return str(_STEMMER.stemWord(IRREGULAR.get(word, word)))


def stems(text: str) -> tuple[str, ...]:
    """Return the stems of the words of a text."""
    return tuple(map(stem, text.split()))


@lru_cache(maxsize=65536)
def split_identifier(name: str) -> tuple[str, ...]:
    """Split a table's or column's name into lower-case words; known abbreviations are written out.

    >>> split_identifier("SongReleaseYear"), split_identifier("emp_fname"), split_identifier("clubname")
    (('song', 'release', 'year'), ('employee', 'first', 'name'), ('club', 'name'))
    """
    words: list[str] = []
    name = re.sub(r"(?i)\be[-_ ]?mail", "email", name)
    for chunk in re.split(r"[\W_]+", name):
        whole = chunk.lower() in ABBREVIATIONS or chunk.lower() in UNITS
        for part in [chunk] if whole else _CAMEL.findall(chunk):
            words.extend(_spelled_out(part.lower()))
    if len(words) > 1 and len(words[0]) == 1 and words[0].isalpha() and len(words[1]) > 1:
        words = words[1:]  # an initial, as in GName
    return tuple(words)


def _spelled_out(part: str) -> tuple[str, ...]:
    if part in ABBREVIATIONS:
        return ABBREVIATIONS[part]
    if len(part) == 5 and part.endswith("name"):  # sname, cname: the initial is the table's
        return ("name",)
    for ending in COMMON_PARTS:
        if part.endswith(ending) and len(part) - len(ending) >= 3:
            head = part[: -len(ending)]
            return (*ABBREVIATIONS.get(head, (head,)), ending)
    return (part,)


@lru_cache(maxsize=65536)
def stems_of(name: str) -> tuple[str, ...]:
    """Return the stems of an identifier's words."""
    return tuple(stem(word) for word in split_identifier(name))


@lru_cache(maxsize=262144)
def likeness(asked: str, named: str) -> float:
    """Return how alike a question's stem and an identifier's stem are, in 0..1."""
    if asked == named:
        return 1.0
    if len(asked) < 3 or len(named) < 3:
        return 0.0
    short, long = sorted((asked, named), key=len)
    if len(short) >= 4 and long.startswith(short) and len(long) - len(short) <= 5:
        return 0.75
    if len(short) >= 5 and asked[:5] == named[:5] and len(long) <= 10:
        return 0.6
    return 0.0


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


def _pairs(text: str) -> dict[str, str]:
    """Return a dictionary from "key=value" words."""
    return dict(pair.split("=") for pair in text.split())


NUMBER_WORDS = _pairs("two=2 three=3 four=4 five=5 six=6 seven=7 eight=8 nine=9 ten=10 eleven=11 twelve=12")
"""Words that are read as numbers anywhere; "one" is mostly a pronoun and only read after a comparison."""

IRREGULAR = _pairs(
    """
    people=person persons=person children=child aged=age men=man women=woman feet=foot movies=movie born=birth won=win
    taught=teach paid=pay wrote=write written=write made=make held=hold bought=buy sold=sell taken=take took=take
    gave=give given=give led=lead built=build spent=spend died=die
    """
)
"""Irregular forms and their base."""

ABBREVIATIONS = {
    short: tuple(long.split("_"))
    for short, long in _pairs(
        """
        fname=first_name lname=last_name dob=birth_date dept=department emp=employee stu=student crs=course
        prof=professor no=number num=number nbr=number qty=quantity amt=amount acc=account acct=account cust=customer
        addr=address bal=balance desc=description loc=location pos=position pct=percent avg=average yr=year sal=salary
        lang=language apt=apartment tel=telephone lat=latitude lng=longitude temp=temperature org=organization
        proj=project cat=category dst=destination src=source dest=destination firstname=first_name lastname=last_name
        forename=first_name surname=last_name fullname=full_name stuid=student_id ids=id colour=color min=minimum
        max=maximum ht=height wt=weight govt=government dist=district
        """
    ).items()
} | dict.fromkeys(("ref", "tbl", "tb"), ())
"""Parts of identifiers and the words they stand for; () is dropped."""

COMMON_PARTS = "name date year type code number title status location address id".split()  # noqa: SIM905
"""Words that identifiers glue to another without a separator, as in `clubname`."""

GLUE = words_of("of the a an 's their its his her all")
"""Words that may stand between the words of one mention."""

STOP = GLUE | words_of(
    """
    is are was were be been do does did have has had and or in on at to for from by with what which who
    whom whose where when how many much that this these those there it they them we you i me my our your
    not no each every any some than as list show give find return tell please display also if then so
    between more less most least only one can could would will may about into out up down over under
    both either neither nor else but
    """
)
"""Words that are no mention by themselves."""

_SIZE = "size area population capacity amount number"
SUPERLATIVES: dict[str, tuple[bool, tuple[str, ...]]] = {
    word: (descending, tuple(hints.split()))
    for words, descending, hints in (
        ("highest", True, "height elevation score price salary"),
        ("largest biggest", True, _SIZE),
        ("greatest maximum max maximal most", True, ""),
        ("lowest", False, "height elevation score price salary"),
        ("smallest", False, _SIZE),
        ("minimum min minimal fewest least", False, ""),
        ("oldest", True, "age -birth -founded -open -built -year -date"),
        ("youngest", False, "age -birth -founded -open -year -date"),
        ("longest", True, "length duration distance time hours year"),
        ("shortest", False, "length duration height distance time"),
        ("tallest", True, "height"),
        ("heaviest", True, "weight"),
        ("lightest", False, "weight"),
        ("cheapest", False, "price cost fee rate"),
        ("expensive", True, "price cost fee rate"),
        ("fastest", True, "speed -time -lap horsepower"),
        ("slowest", False, "speed -time -lap"),
        ("latest newest recent recently", True, "date year time day age"),
        ("earliest", False, "date year time"),
        ("best", True, "rating score -rank point grade"),
        ("worst", False, "rating score -rank point grade"),
    )
    for word in words.split()
}
"""Superlative -> whether it asks for the greatest, and the columns it speaks of when none is said.

A hint that begins with "-" turns the direction round: the oldest has the smallest year of birth.
"""

AGGREGATES = _pairs(
    """
    average=AVG mean=AVG avg=AVG averaged=AVG maximum=MAX max=MAX maximal=MAX highest=MAX largest=MAX greatest=MAX
    biggest=MAX latest=MAX oldest=MAX longest=MAX minimum=MIN min=MIN minimal=MIN lowest=MIN smallest=MIN
    earliest=MIN youngest=MIN shortest=MIN least=MIN total=SUM sum=SUM combined=SUM overall=SUM
    """
)
"""Words that ask for an aggregate of the column that follows."""

UNITS = words_of(
    "million billion thousand usd dollar dollars feet ft km kg cm mm lb lbs mib mb gb mph kmh percent yn inches miles"
    " minutes seconds ms m ct cents pct eur"
)
"""Last words of columns that questions leave out."""
