"""A request as the offline backbone reads it: the database, the sections of its messages, and the keys of the reply.

The database may be in any of the formats that `tasks.database.schema_text` writes. `Heading` declares every heading
that is read; a test compares the headings of each template with it.
"""

import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from itertools import chain

from tasks.backbone.protocol import Message, Request
from tasks.core.records import ColumnName
from tasks.database.dialects import NAME_OF_TITLE, SQLITE

_NAME = (
    r"(?:(?<!`)`(?:[^`]|``)++`|(?<!\")\"(?:[^\"]|\"\")++\""
    r"|(?<![^\s(),.:;=`\"\[\]])[^\s(),.:;=`\"\[\]]++)"
)
_VALUE = r"(?:'(?:[^']|'')*+'|<\d+ bytes>|[^\s|,()']+)"
_LITERAL = re.compile(r"(?<!')'(?P<text>(?:[^']|'')*+)'(?=\s*(?:[|,\]]|$))|(?P<bare>[^\s|,\[\]'][^|,\[\]]*)")
_ROW = re.compile(rf"^(?:#\s*+)?(?:view ++(?=\S))?({_NAME})\s*+\((.*)\)\s*+$")
_ROW_COLUMN = re.compile(rf"({_NAME})(?:: ({_VALUE}(?: \| {_VALUE})*))?(?:, |$)")
_TABLE = re.compile(rf"^(?:#\s*(?:Table|View):|\s*create\s+table)\s*({_NAME})", re.IGNORECASE)
_CONSTRAINT = re.compile(r"^\s*(?:primary\s+key|(?:constraint\s+\S+\s+)?foreign\s+key)\b", re.IGNORECASE)
_COLUMN = re.compile(rf"^\s*\(?({_NAME})")
_EXAMPLES = re.compile(r"(?:, |\| |-- )[Ee]xamples?: (?:\[(?P<bracketed>.*?)\](?=\),?$|$)|(?P<bare>.*))")
_KEY = re.compile(rf"({_NAME})\.\(?({_NAME})(?:,[^)\n]{{0,300}})?\)?\s*(?:->|=)\s*({_NAME})\.\(?({_NAME})")
_REFERENCES = re.compile(
    rf"foreign\s++key\s*+\(\s*({_NAME})[^)\n]{{0,300}}+\)\s*+references\s++({_NAME})\s*+\(\s*({_NAME})",
    re.IGNORECASE,
)
_DESCRIPTION = re.compile(rf"^#\s*({_NAME})\.({_NAME}): (.+)$", re.MULTILINE)
_AFTER_HEAD = re.compile(r"[,;:(.]|\s(?:in|of|for|at|on|to|that|which|with|when|where|if)\s")
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[^\W\d_A-Z]+|[A-Z]+|\d+")
_ENDING = re.compile(r"(?<=[^\W\d_]{2})(?:ings?|ies|ed|es|s|e|y)$")


@dataclass(frozen=True, slots=True)
class Join:
    """A foreign key, by its first column pair."""

    child: ColumnName
    parent: ColumnName

    def other(self, table: str) -> str:
        """Return the table at the other end."""
        return self.parent.table if table == self.child.table else self.child.table


@dataclass(frozen=True, eq=False)
class PromptSchema:
    """Tables, columns with their sample values as text, and foreign keys, in the order of the prompt."""

    samples: dict[ColumnName, list[str]] = field(default_factory=dict)  # [] for a column without any
    joins: list[Join] = field(default_factory=list)
    heads: dict[ColumnName, str] = field(default_factory=dict)  # first words of columns' descriptions
    dialect: str = SQLITE  # sqlglot's name of the dialect in which queries are written

    @property
    def columns(self) -> Collection[ColumnName]:
        """All columns."""
        return self.samples.keys()

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables that have columns."""
        return tuple(dict.fromkeys(name.table for name in self.columns))

    def find(self, column: str, table: str = "") -> list[ColumnName]:
        """Return the columns of a name, compared without case, of one table or of all ("")."""
        return [
            name
            for name in self.columns
            if name.column.lower() == column.lower() and table.lower() in ("", name.table.lower())
        ]

    def name_of(self, table: str) -> ColumnName:
        """Return the column that names the rows of a table: a name or title, else its first one."""
        columns = [column for column in self.columns if column.table == table]
        return next((name for name in columns if {*stems_of(name.column)} & {"nam", "titl"}), columns[0])

    def named_in(self, text: str) -> Iterator[ColumnName]:
        """Yield the columns that a text names as `table.column`, with or without quotes."""
        names = {name.strip() for name in re.sub(r"[`\"]", "", text.lower()).split(",")}
        return (column for column in self.columns if str(column).lower() in names)

    def path(self, tables: Sequence[str], goal: str) -> list[Join]:
        """Return the shortest chain of foreign keys from any of the tables to another; [] without one."""
        paths: dict[str, list[Join]] = {table: [] for table in tables}
        queue = deque(tables)
        while queue and goal not in paths:
            table = queue.popleft()
            for join in self.joins:
                if table in (join.child.table, join.parent.table) and join.other(table) not in paths:
                    paths[join.other(table)] = [*paths[table], join]
                    queue.append(join.other(table))
        return paths.get(goal, [])

    def add_column(self, table: str, column: str, values: str = "") -> None:
        """Add a column if it is new, and the literals in `values` as its samples, except NULL and `<6 bytes>`."""
        samples = self.samples.setdefault(ColumnName(table, column), [])
        for literal in _LITERAL.finditer(values):
            text = literal["text"]
            bare = (literal["bare"] or "").strip()
            if text is not None:
                samples.append(text.replace("''", "'"))
            elif bare and bare.upper() != "NULL" and not bare.startswith("<"):
                samples.append(bare)

    def add_key(self, table: str, column: str, parent: str, parent_column: str) -> None:
        """Add a foreign key whose columns the schema has."""
        pairs = zip(self.find(column, table), self.find(parent_column, parent), strict=False)
        self.joins.extend(Join(*pair) for pair in pairs if Join(*pair) not in self.joins)


def read_schema(
    text: str, samples: str = "", foreign_keys: str = "", descriptions: str = "", *, dialect: str
) -> PromptSchema:
    """Read the database sections of a prompt; lines in no known format are passed over.

    `text` has the tables, with all columns in one line or with a line per column. If it is M-Schema, it ends with the
    foreign keys. Of a column's description only the beginning is kept, up to a punctuation mark or a word like "of".
    """
    schema = PromptSchema(dialect=dialect)
    tables, _, keys_of_m_schema = text.partition("【Foreign keys】")
    _read_table_lines(tables, schema)
    if not schema.columns:  # no line is a whole table
        _read_column_lines(tables, schema)
    _read_table_lines(samples, schema, only_known=True)
    for key in _KEY.finditer(f"{foreign_keys}\n{keys_of_m_schema}"):
        schema.add_key(*map(plain_name, key.groups()))
    for table, column, description in _DESCRIPTION.findall(descriptions):
        for name in schema.find(plain_name(column), plain_name(table)):
            schema.heads[name] = _AFTER_HEAD.split(description, maxsplit=1)[0]
    return schema


def _read_table_lines(text: str, schema: PromptSchema, *, only_known: bool = False) -> None:
    """Read lines that have a table with all its columns; `only_known` passes over columns that the schema lacks."""
    for row in filter(None, map(_ROW.match, text.splitlines())):
        for column in _ROW_COLUMN.finditer(row[2]):
            table, name = plain_name(row[1]), plain_name(column[1])
            if not only_known or schema.find(name, table):
                schema.add_column(table, name, column[2] or "")


def _read_column_lines(text: str, schema: PromptSchema) -> None:
    """Read tables with a line per column: CREATE TABLE statements, or M-Schema."""
    table = ""
    keys = []  # added at the end, when the schema has the columns of both tables
    for line in text.splitlines():
        if match := _TABLE.match(line):
            table = plain_name(match[1])
        elif match := _REFERENCES.search(line):
            keys.append((table, *map(plain_name, match.groups())))
        elif table and not _CONSTRAINT.match(line) and (match := _COLUMN.match(line)):
            examples = _EXAMPLES.search(line)
            values = (examples["bracketed"] or examples["bare"]) if examples else ""
            schema.add_column(table, plain_name(match[1]), values)
    for key in keys:
        schema.add_key(*key)


def plain_name(name: str) -> str:
    """Return a name without its quotes.

    >>> plain_name("`x``y`"), plain_name('"a b"'), plain_name("plain")
    ('x`y', 'a b', 'plain')
    """
    name, quote = name.strip(), name.strip()[:1]
    is_quoted = len(name) > 1 and quote in ("`", '"') and name[-1] == quote
    return name[1:-1].replace(quote * 2, quote) if is_quoted else name


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Return a word in lower case without a common English ending.

    >>> stem("Countries") == stem("country"), stem("named") == stem("name")
    (True, True)
    """
    return _ENDING.sub("", word.lower())


@lru_cache(maxsize=65536)
def stems_of(name: str) -> tuple[str, ...]:
    """Return the stems of the words of an identifier.

    >>> stems_of("SongReleaseYear"), stems_of("home town")
    (('song', 'releas', 'year'), ('hom', 'town'))
    """
    return tuple(stem(part) for part in _PART.findall(name))


Sections = dict[str, str]
"""Bodies of sections by heading in lower case; "" is the text before the first heading."""


class Heading(StrEnum):
    """Headings that are read."""

    SCHEMA = "schema"
    SAMPLES = "sample values"
    FOREIGN_KEYS = "foreign keys"
    DESCRIPTIONS = "column descriptions"
    EVIDENCE = "evidence"
    QUESTION = "question"
    LINKED_COLUMNS = "linked columns"
    LINKED_BEFORE = "linked so far"
    DESCRIBED = "columns to describe"
    CURRENT_SQL = "current sql"
    FEEDBACK = "feedback"
    REPLY = "reply"
    QUERY = "query"
    RESPONSE = "response"
    ACTIONS = "actions"


MAX_CHARACTERS = 4000
"""Characters of a question, and of its evidence, that are read."""
UNKNOWN_DATABASE = PromptSchema({ColumnName("t", "a"): []})
"""The database of a query that is asked for without one (DAC's skeleton)."""

_REPLY_KEY = re.compile(r'(?<=")\w+(?=")|(?<=```)sql')
_HEADING = re.compile(r"^### ++(.+)$", re.MULTILINE)
_FAILURE = re.compile(r"Error: |Time-out: |There is no query")
_DIALECT = re.compile(rf"\b({'|'.join(NAME_OF_TITLE)})(?: quer|查询)")
"""The dialect that a prompt names; a prompt that names none is read as SQLite's."""
_ENGLISH = re.compile(
    r"\A(?>.*?^Database Schema:\n)(?>(?P<schema>.*?)\n\nQuestion:\n)(?P<question>.*?)\n\nInstructions:\n",
    re.DOTALL | re.MULTILINE,
)
_CHINESE = re.compile(
    r"\A(?>.*?^【数据库schema】\n)(?>(?P<schema>.*?)\n\n(?=【参考信息】\n|【用户问题】\n))"
    r"(?>(?:【参考信息】\n(?P<evidence>.*?)\n\n)?【用户问题】\n)(?P<question>.*?)\n\n```sql",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A query that was run, with its result as text."""

    sql: str
    result: str = ""

    @property
    def failed(self) -> bool:
        """Whether the query did not run to its end."""
        return not self.sql.strip() or bool(_FAILURE.match(self.result.strip()))

    @property
    def is_empty(self) -> bool:
        """Whether the query returned no row."""
        return self.result.strip() == "No rows."

    @property
    def surprise(self) -> int:
        """How odd the result is: a failure, no row, only NULL, only 0."""
        if self.failed or self.is_empty:
            return 100 if self.failed else 50
        cells = {cell.strip() for row in self.result.splitlines()[1:] for cell in row.split(" | ")}
        if cells <= {"NULL", ""}:
            return 20
        return 10 if cells == {"0"} else 0


@dataclass(frozen=True, slots=True)
class Prompt:
    """Everything of a conversation that is read."""

    question: str
    evidence: str
    schema: PromptSchema
    attempts: tuple[Attempt, ...]  # the queries of all turns, with their results
    selects: bool  # whether the answer is one of the attempts
    linked: tuple[ColumnName, ...]
    described: tuple[str, ...]
    current_sql: str
    feedback: str


def sections_of(messages: Sequence[Message]) -> Sections:
    """Return the sections of a conversation; those of a later message replace those of an earlier one."""
    return {heading: body for message in messages for heading, body in _split(message).items()}


def keys_of(request: Request, sections: Sections) -> list[str]:
    """Return the keys of the reply: those of the JSON schema, else the quoted words of the section "Reply".

    There, a fence of SQL is the key "sql".
    """
    properties: Mapping[str, object] | None = (request.schema or {}).get("properties")
    return [*(properties or _REPLY_KEY.findall(sections.get(Heading.REPLY, "")))]


def read_prompt(messages: Sequence[Message]) -> Prompt:
    """Read a conversation; without any known heading the last message as a whole is the question."""
    sections = sections_of(messages)
    current_sql = sections.get(Heading.CURRENT_SQL, "")
    attempts_by_message = [_attempts(_split(message)) for message in messages]
    feedback = sections.get(Heading.FEEDBACK, "").removeprefix("Running the query fails.").strip()
    if _FAILURE.match(feedback):
        attempts_by_message.append([Attempt(current_sql, feedback)])
    # A message with several queries asks for the best of them, or, with reasons why they fail, for a new one.
    has_several = any(len(attempts) > 1 for attempts in attempts_by_message)
    has_reasons = any(heading.startswith("reason ") for heading in sections)
    schema = _schema(messages, sections)
    linked = f"{sections.get(Heading.LINKED_COLUMNS, '')} , {sections.get(Heading.LINKED_BEFORE, '')}"
    has_headings = any(heading in sections for heading in Heading)
    message_without_headings = "" if has_headings else sections.get("", "")
    described = filter(None, sections.get(Heading.DESCRIBED, "").split(", "))
    return Prompt(
        question=sections.get(Heading.QUESTION, message_without_headings)[:MAX_CHARACTERS],
        evidence=sections.get(Heading.EVIDENCE, "")[:MAX_CHARACTERS],
        schema=schema,
        attempts=tuple(chain.from_iterable(attempts_by_message)),
        selects=has_several and not has_reasons,
        linked=tuple(schema.named_in(linked)),
        described=tuple(map(plain_name, described)),
        current_sql=current_sql,
        feedback=feedback,
    )


def _schema(messages: Sequence[Message], sections: Sections) -> PromptSchema:
    if Heading.QUESTION in sections and Heading.SCHEMA not in sections:
        return UNKNOWN_DATABASE
    dialect_match = next(filter(None, (_DIALECT.search(message.content) for message in messages)), None)
    database = (Heading.SCHEMA, Heading.SAMPLES, Heading.FOREIGN_KEYS, Heading.DESCRIPTIONS)
    texts = (sections.get(heading, "") for heading in database)
    return read_schema(*texts, dialect=NAME_OF_TITLE[dialect_match[1]] if dialect_match else SQLITE)


def _attempts(sections: Sections) -> list[Attempt]:
    """Return the queries of the sections "SQL 1", "SQL 2", ... with those of their results."""
    numbers = sorted(int(name[4:]) for name in sections if re.fullmatch(r"sql [1-9][0-9]{0,5}", name))
    results = {number: sections.get(f"result of sql {number}", "") for number in numbers}
    return [Attempt(sections[f"sql {number}"], result) for number, result in results.items()]


def _split(message: Message) -> Sections:
    """Return the sections of a user's message, {} for other roles; the bodies of one heading are joined."""
    if message.role != "user":
        return {}
    first, *parts = _HEADING.split(message.content)
    if not parts and (sections_without_headings := native_sections(first)):
        return sections_without_headings
    sections = {"": first.strip()}
    for heading, body in zip(parts[::2], parts[1::2], strict=True):  # headings and bodies alternate
        name = heading.strip().lower()
        sections[name] = f"{sections.get(name, '')}\n{body}".strip()
    return sections


def native_sections(text: str) -> Sections:
    """Return the sections of a prompt in a layout that text-to-SQL models were trained on; {} if it is in none."""
    if match := _CHINESE.search(text):
        evidence = match["evidence"] or ""
        question = match["question"]
    elif match := _ENGLISH.search(text):
        # the question is the last line, with the evidence above it
        evidence, _, question = match["question"].rpartition("\n")
    else:
        return {}
    return {Heading.SCHEMA: match["schema"], Heading.EVIDENCE: evidence, Heading.QUESTION: question}
