"""Extraction of SQL from replies."""

import re
from collections.abc import Collection, Iterator
from itertools import islice

from tasks.backbone.replies.json_text import MAX_CHARACTERS, fenced, readings, without_objects
from tasks.backbone.replies.thoughts import without_thoughts
from tasks.database.dialects import NAME_OF_TITLE

_KEYS = ("sql", "sqlquery", "query", "finalsql", "sqlstatement", "answer")
_SQL_FENCES = frozenset({"sql", "tsql", *NAME_OF_TITLE.values(), *map(str.lower, NAME_OF_TITLE)})
_CTE = (
    r"WITH\s++(?:RECURSIVE\s++)?[\w\"`\[][^()]{0,300}(?:\([^()]{0,2000}+\)\s*+)?"
    r"AS\s*+(?:(?:NOT\s++)?MATERIALIZED\s*+)?\("
)
_START_OF_LINE = re.compile(
    rf"^[ \t>*]*+(?:[\w ]{{1,30}}+:[ \t]*+)?[`\"(]*+(?P<sql>SELECT\b|{_CTE})", re.IGNORECASE | re.MULTILINE
)
_ANYWHERE = re.compile(rf"\b(?P<sql>SELECT\b(?=\s+\S)|{_CTE})")
_LOWER = re.compile(r"\b(?P<sql>select\s)", re.IGNORECASE)
# Distinguishes "select name from users where" from "select a database from the list below".
_FROM = re.compile(
    r"\bfrom\s+(?:[\w.]+|\"[^\"]+\"|`[^`]+`|\[[^\]]+\]|\()\s*"
    r"(?:$|[;,)`]|\w\s*$|\b(?:as|where|join|inner|left|cross|group|order|limit|union|having|except|intersect)\b)",
    re.IGNORECASE | re.MULTILINE,
)
# What can begin a paragraph of a query; sqlglot's keywords include words that begin a sentence (show, use, comment).
_CLAUSES = frozenset(
    """FROM WHERE GROUP ORDER HAVING LIMIT OFFSET FETCH UNION INTERSECT EXCEPT LEFT RIGHT FULL INNER CROSS NATURAL
    OUTER STRAIGHT_JOIN JOIN ON USING AND OR NOT WINDOW QUALIFY CASE WHEN THEN ELSE END AS IN IS LIKE BETWEEN EXISTS
    DISTINCT""".split()  # noqa: SIM905 - a list of 40 strings would be a page
)
# What a query cannot end with.
_UNFINISHED = frozenset(
    """, = < > + - / | SELECT DISTINCT ALL FROM WHERE AND OR NOT ON BY JOIN HAVING UNION INTERSECT EXCEPT AS WITH
    RECURSIVE CASE WHEN THEN ELSE IN LIKE BETWEEN VALUES LIMIT OFFSET""".split()  # noqa: SIM905
)
_QUERIES = frozenset({"SELECT", "VALUES"})
_BEGINNING = re.compile(
    r"(?>\s++|--(?!-)[^\n]*\n|/\*.*?\*/){0,100}+(?:(?P<word>[A-Za-z_]+)\b|[,+=<]|\|\|)", re.DOTALL
)
_STATEMENT = re.compile(
    rf"(?>--[^\n]*\n|/\*.*?\*/|[\s(;]++)*+(?P<sql>SELECT\b|{_CTE}|VALUES\s*\(|INSERT\s+INTO|UPDATE\s+\S+\s+SET|DELETE\s+FROM"
    r"|(?:CREATE|DROP|ALTER)\s+(?:TEMP\s+)?(?:TABLE|VIEW|INDEX))",
    re.IGNORECASE | re.DOTALL,
)
# A string, name or comment, perhaps never closed, or a semicolon outside of them. sqlglot's tokenizer refuses what is
# never closed, and the prose after a query has apostrophes.
_SEMICOLON = re.compile(r"'[^']*'?|\"[^\"]*\"?|`[^`]*`?|--[^\n]*|/\*.*?(?:\*/|\Z)|(?P<end>;)", re.DOTALL)

_BLANK_LINES = r"\n(?:[ \t\r]*\n)+"
_BLANK = re.compile(_BLANK_LINES)
# Starts of a line of prose: what sentences begin with and queries do not, a heading, an item, or a capitalized word
# before a colon or another word, neither of them a word of SQL.
_WORDS = {*_CLAUSES, *filter(str.isalpha, _UNFINISHED), "SET", "INTO", "FOR", "RETURNING", "ASC", "DESC"}
_SQL_WORD = rf"(?i:{'|'.join(sorted(_WORDS))})\b"
_PROSE = (
    r"[ \t]*(?:\*\*[A-Z]|##+ |\d+[.)] |(?:[-*>] )?(?:(?:This|The|These|It|There|Here|For example)[ ,:']|In \w|Or,"
    rf"|(?!{_SQL_WORD})[A-Z][a-z]*+(?::\s|'[a-z]| (?!{_SQL_WORD})[^\W\d_A-Z]+\b(?! *[(.]))))"
)
# The same, and what tells whether a query goes on behind a line or blank lines.
_PIECE = re.compile(
    rf"'[^']*'?|\"[^\"]*\"?|`[^`]*`?|(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))|(?P<blank>{_BLANK_LINES})|"
    rf"(?P<line>\n(?={_PROSE}))|"
    r"(?P<tag></\w+>|<[|｜][^\s<>]{1,40}[|｜]>)|\w+|\S",
    re.DOTALL,
)
# What goes on also with a query within a sentence, whose end is not known.
_CONTINUED = re.compile(
    r"\s*(?:FROM|WHERE|GROUP|ORDER|HAVING|LIMIT|UNION|INTERSECT|EXCEPT|JOIN|LEFT|INNER|AND|OR|ON)\b"
)

MAX_SELECT = 2000
"""Characters after a "select" in small letters within which its FROM is looked for."""
MAX_SELECTS = 1000
"""Most words "select" that are examined in a reply."""


def read_sql(text: str) -> str | None:
    r"""Return the first SQL statement of a reply, without its final semicolon; None when there is none.

    Looked for in this order: the last JSON object with a key such as `sql`; a fence marked as SQL; any fence that
    starts like a statement; the text itself when it does; a line that starts a query, label or not; a query
    within a sentence, which ends at a semicolon, a closing backtick, or before a line of prose.

    >>> read_sql('{"sql": "SELECT a FROM t;"}')
    'SELECT a FROM t'
    >>> read_sql("The answer is:\nSELECT a FROM t WHERE b = ';'; -- done")
    "SELECT a FROM t WHERE b = ';'"
    >>> read_sql("I cannot answer that.") is None
    True
    """
    text = without_thoughts(text)[:MAX_CHARACTERS].strip().lstrip(";").lstrip()
    if "{" in text:
        sql = _sql_of_object(text)
        if sql is not None:
            return _clean(sql)
        text = without_objects(text).strip()
    fences = fenced(text)
    marked_as_sql = [content for language, content in fences if language in _SQL_FENCES]
    statements = marked_as_sql or [content for _, content in fences if _STATEMENT.match(content)]
    if statements:
        return _clean(statements[0])
    whole = _STATEMENT.match(text)
    if whole is not None and _is_query(text, whole.start("sql")):
        return _clean(_until_prose(text))
    for pattern in (_START_OF_LINE, _ANYWHERE, _LOWER):
        for match in islice(pattern.finditer(text), MAX_SELECTS):
            if _is_query(text, match.start("sql")):
                return _clean(_in_sentence(text, match.start("sql")))
    return None


def _sql_of_object(text: str) -> str | None:
    """Return the query of the last JSON object with a key such as `sql`, of those that were read most reliably."""
    queries = []  # each with the way in which its object was read, the most reliable way first
    for reading in readings(text):
        if isinstance(reading.value, dict):
            by_key = {re.sub(r"\W|_", "", str(key)).lower(): value for key, value in reading.value.items()}
            key = next((key for key in _KEYS if isinstance(by_key.get(key), str)), None)
            if key is not None and not (reading.path == "repaired" and is_unfinished(by_key[key])):
                queries.append((reading.path, by_key[key]))
    reliable = [sql for path, sql in queries if path == queries[0][0]]
    return reliable[-1] if reliable else None


def is_unfinished(sql: str) -> bool:
    """Return whether a query cannot end so, because its reply was cut off.

    >>> is_unfinished("SELECT a FROM t WHERE"), is_unfinished("SELECT a FROM t")
    (True, False)
    """
    words = re.findall(r"\w+|\S", sql.upper())
    return not words or words[-1] in _UNFINISHED


def sql_of_fence(language: str, content: str) -> str | None:
    """Return the first statement of a fenced block; None where it is marked as something else, or holds none."""
    if language in _SQL_FENCES or _STATEMENT.match(content):
        return _clean(content)
    return None


def last_sql(text: str) -> str | None:
    r"""Return the SQL of the last paragraph that has any, as `read_sql` finds it; None when none has.

    >>> last_sql("First I thought of SELECT a FROM t.\n\nSELECT b FROM t\n\nWHERE c = 1\n\nThat is all.")
    'SELECT b FROM t\n\nWHERE c = 1'
    """
    statements = map(read_sql, reversed(list(_paragraphs(text[:MAX_CHARACTERS]))))
    return next((sql for sql in statements if sql is not None), None)


def first_statement(sql: str) -> str:
    r"""Return the text up to the first semicolon that is in no string, quoted name or comment.

    >>> first_statement("SELECT ';' -- a; b\n FROM t; DROP TABLE t")
    "SELECT ';' -- a; b\n FROM t"
    """
    end = next((match.start() for match in _SEMICOLON.finditer(sql) if match["end"]), len(sql))
    return sql[:end]


def _clean(sql: str) -> str | None:
    """Return the first statement, stripped; None when nothing but comments and blanks is left."""
    fences = fenced(sql) if sql.lstrip().startswith("```") else []
    rest = (fences[0][1] if fences else sql).strip()
    while rest:
        statement = first_statement(rest)
        if re.sub(r"--[^\n]*|/\*.*?(?:\*/|\Z)|\s", "", statement, flags=re.DOTALL):
            return statement.strip()
        rest = rest[len(statement) + 1 :].strip()
    return None


def _is_query(text: str, start: int) -> bool:
    """Whether a query starts there: "select" in small letters may be an English word."""
    return (
        text[start : start + 6].lower() != "select"
        or text.startswith("SELECT", start)
        or (_FROM.search(text[start : start + MAX_SELECT]) is not None)
    )


def _in_sentence(text: str, start: int) -> str:
    """Return the query that starts there, up to where prose goes on.

    A query directly after one backquote or double quote ends before the last such character of its paragraph, since
    names within it may be quoted alike. After two or more of them, or where none follows, it ends as any other query.
    """
    sql = text[start:]
    quote = text[start - 1 : start]  # "" at the start of the text
    is_doubled = text[start - 2 : start] == 2 * quote
    if quote and quote in '`"' and not is_doubled:
        paragraph = sql.partition("\n\n")[0]
        closing = paragraph.rfind(quote)
        if closing > 0:
            return paragraph[:closing]
    return _until_prose(sql)


def _until_prose(sql: str) -> str:
    return sql[: _end_of_query(sql, 0)].partition("```")[0]


def _end_of_query(text: str, start: int) -> int:
    """Return where the query that starts there ends: at its semicolon, or before a line or paragraph of prose.

    A closing tag (`</sql>`) or special token (`<|im_end|>`), which servers may leave in a reply, ends it, too.
    A query goes on where a parenthesis, string or comment is open, where it cannot end, or with a word of SQL.
    """
    depth = 0  # of open parentheses
    last = ""
    has_query = False  # before it, only common table expressions have been read
    for piece in _PIECE.finditer(text, start):
        if piece["blank"]:
            if depth <= 0 and last not in _UNFINISHED:
                beginning = _BEGINNING.match(text, piece.end())
                words = _CLAUSES if has_query else _QUERIES
                if beginning is None or not _goes_on(beginning["word"], words):
                    return piece.start()
        elif piece["line"]:
            if depth <= 0 and last not in _UNFINISHED:
                return piece.start()
        elif piece[0] == ";" or piece["tag"]:
            return piece.start()
        elif not piece["comment"]:
            last = piece[0].upper()
            depth += {"(": 1, ")": -1}.get(last, 0)
            has_query = has_query or (depth == 0 and last in _QUERIES)
    return len(text)


def _goes_on(word: str | None, words: Collection[str]) -> bool:
    """Whether a query goes on with a word, None for a sign. Words of SQL are in one case: "From" begins a sentence."""
    return word is None or (word.upper() in words and (word.isupper() or word.islower()))


def _paragraphs(text: str) -> Iterator[str]:
    """Split a text at its blank lines, but for those within a query."""
    start = end_of_query = 0
    for blank in _BLANK.finditer(text):
        if blank.start() < end_of_query or _CONTINUED.match(text, blank.end()):
            continue  # the blank line is part of a query
        query = _START_OF_LINE.search(text, start, blank.start())
        if query and _is_query(text, query.start("sql")):
            end_of_query = _end_of_query(text, query.start("sql"))
        if blank.start() >= end_of_query:
            yield text[start : blank.start()]
            start = blank.end()
    yield text[start:]
