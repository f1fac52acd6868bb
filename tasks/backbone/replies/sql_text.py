"""Extraction of SQL from replies."""

import re

from tasks.backbone.replies.json_text import fenced, readings, without_thoughts

_KEYS = ("sql", "sqlquery", "query", "finalsql", "sqlstatement", "answer")
_SQL_FENCES = frozenset({"sql", "sqlite", "postgresql", "postgres", "mysql", "duckdb", "tsql"})
_CTE = r"WITH\s+(?:RECURSIVE\s+)?[\w\"`\[][^()]*(?:\([^()]*\)\s*)?AS\s*(?:(?:NOT\s+)?MATERIALIZED\s*)?\("
_START_OF_LINE = re.compile(
    rf"^[ \t>*]*(?:[\w ]{{1,30}}:[ \t]*)?[`\"(]*(?P<sql>SELECT\b|{_CTE})", re.IGNORECASE | re.MULTILINE
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
_SQL_WORD = re.compile(
    r"\s*(?:SELECT|FROM|WHERE|GROUP|ORDER|HAVING|LIMIT|OFFSET|UNION|INTERSECT|EXCEPT|(?:LEFT|RIGHT|FULL|INNER|CROSS"
    r"|NATURAL|OUTER|STRAIGHT)\b|JOIN|ON|USING|AND|OR|NOT|WITH|WINDOW|VALUES|CASE|WHEN|THEN|ELSE|END|AS|IN|IS|LIKE"
    r"|BETWEEN|EXISTS|DISTINCT|[^A-Za-z])",
    re.IGNORECASE,
)
_STATEMENT = re.compile(
    rf"(?:--[^\n]*\n|/\*.*?\*/|[\s(;])*(?P<sql>SELECT\b|{_CTE}|VALUES\s*\(|INSERT\s+INTO|UPDATE\s+\S+\s+SET|DELETE\s+FROM"
    r"|(?:CREATE|DROP|ALTER)\s+(?:TEMP\s+)?(?:TABLE|VIEW|INDEX))",
    re.IGNORECASE | re.DOTALL,
)
# A string, name or comment, perhaps never closed, or a semicolon outside of them. sqlglot's tokenizer refuses what is
# never closed, and the prose after a query has apostrophes.
_SEMICOLON = re.compile(r"'[^']*'?|\"[^\"]*\"?|`[^`]*`?|--[^\n]*|/\*.*?(?:\*/|\Z)|(?P<end>;)", re.DOTALL)

# Where a paragraph ends, unless the next one continues a query.
_PARAGRAPH = re.compile(
    r"\n[ \t]*\n(?!\s*(?:FROM|WHERE|GROUP|ORDER|HAVING|LIMIT|UNION|INTERSECT|EXCEPT|JOIN|LEFT|INNER|AND|OR|ON)\b)"
)

LONGEST_SELECT = 2000
"""Characters after a "select" in small letters within which its FROM is looked for."""


def read_sql(text: str) -> str | None:
    r"""Return the first SQL statement of a reply, without its final semicolon; None when there is none.

    Looked for in this order: a JSON object with a key such as `sql`; a fence marked as SQL; any fence that
    starts like a statement; the text itself when it does; a line that starts a query, label or not; a query
    within a sentence, which ends at a semicolon, a closing backtick, or a blank line before prose.

    >>> read_sql('{"sql": "SELECT a FROM t;"}')
    'SELECT a FROM t'
    >>> read_sql("The answer is:\nSELECT a FROM t WHERE b = ';'; -- done")
    "SELECT a FROM t WHERE b = ';'"
    >>> read_sql("I cannot answer that.") is None
    True
    """
    text = without_thoughts(text).strip().lstrip(";").lstrip()
    for reading in readings(text) if "{" in text else ():
        if isinstance(reading.value, dict):
            named = {re.sub(r"\W|_", "", str(key)).lower(): value for key, value in reading.value.items()}
            found = next((named[key] for key in _KEYS if isinstance(named.get(key), str)), None)
            if found is not None:
                return _clean(found)
    fences = fenced(text)
    marked = [content for language, content in fences if language in _SQL_FENCES]
    others = [content for _, content in fences if _STATEMENT.match(content)]
    for content in (*marked, *others):
        return _clean(content)
    whole = _STATEMENT.match(text)
    if whole is not None and _is_query(text, whole.start("sql")):
        return _clean(_until_prose(text))
    for pattern in (_START_OF_LINE, _ANYWHERE, _LOWER):
        for match in pattern.finditer(text):
            if _is_query(text, match.start("sql")):
                return _clean(_in_sentence(text, match.start("sql")))
    return None


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
    found = map(read_sql, reversed(_PARAGRAPH.split(text)))
    return next((sql for sql in found if sql is not None), None)


def first_statement(sql: str) -> str:
    r"""Return the text up to the first semicolon that is in no string, quoted name or comment.

    >>> first_statement("SELECT ';' -- a; b\n FROM t; DROP TABLE t")
    "SELECT ';' -- a; b\n FROM t"
    """
    end = next((found.start() for found in _SEMICOLON.finditer(sql) if found["end"]), len(sql))
    return sql[:end]


def _clean(sql: str) -> str | None:
    """Return the first statement, stripped; None when nothing but comments and blanks is left."""
    fences = fenced(sql) if sql.lstrip().startswith("```") else []
    rest = (fences[0][1] if fences else sql).strip()
    while rest:
        statement = first_statement(rest)
        if re.sub(r"--[^\n]*|/\*.*?\*/|\s", "", statement, flags=re.DOTALL):
            return statement.strip()
        rest = rest[len(statement) + 1 :].strip()
    return None


def _is_query(text: str, start: int) -> bool:
    """Whether a query starts there: "select" in small letters may be an English word."""
    return (
        text[start : start + 6].lower() != "select"
        or text.startswith("SELECT", start)
        or (_FROM.search(text[start : start + LONGEST_SELECT]) is not None)
    )


def _in_sentence(text: str, start: int) -> str:
    """Return the query that starts there, up to where prose goes on."""
    sql = text[start:]
    before = text[start - 1 : start]
    if before and before in '`"' and text[start - 2 : start] != 2 * before:
        line = sql.partition("\n\n")[0]
        closing = line.rfind(before)
        if closing > 0:
            return line[:closing]
    return _until_prose(sql)


def _until_prose(sql: str) -> str:
    statement = first_statement(sql)
    paragraphs = re.split(r"(\n[ \t]*\n)", statement)
    kept = paragraphs[0]
    for blank, paragraph in zip(paragraphs[1::2], paragraphs[2::2], strict=True):
        if not _SQL_WORD.match(paragraph) or re.match(
            r"\s*(?:This|The|It|Note|Explanation|Here)\b", paragraph
        ):
            break
        kept += blank + paragraph
    return kept.partition("```")[0]
