"""The check of SQL for a server before it is sent: one query, which calls no function that reaches beyond the data.

It reads tokens, not text, and knows what a name means from the server (PostgreSQL) or from a list of the functions that
are allowed (MySQL). The role, the read-only transaction and the protocol protect the data, too.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

from tasks.database.dialects import words_of
from tasks.database.limits import ONLY_QUERIES, SEVERAL_STATEMENTS, RefusedError


class SqlToken(NamedTuple):
    """A token that the server acts on."""

    # "word", an unquoted name, keyword or number; "name", a quoted name; "string"; or "sign"
    kind: Literal["word", "name", "string", "sign"]
    text: str  # a word or name as it is compared, in lower case; a sign; "" for a string

    @property
    def is_name(self) -> bool:
        """Whether it may be the name of a function or table."""
        return self.kind in ("word", "name")


_POSTGRESQL = re.compile(
    r"""(?sx)
    (?P<space>[ \t\n\r\f\v]+ | --[^\n\r]*) | (?P<nested>/\*)
    | (?P<escapes>[eE]'(?:[^'\\]++|\\.|'')*+') | (?P<refused>[uU]&")
    | (?P<string>'[^']*') | (?P<dollar>\$(?:[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*)?\$)
    | (?P<name>"(?:[^"]++|"")*+")
    | (?P<word>[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*|[0-9]+) | (?P<sign>.)
    """
)
_MYSQL = r"""(?sx)
    (?P<space>[\x01-\x20]+ | \#[^\n]* | --(?=[\x01-\x20\x7f]|\Z)[^\n]* | /\*(?![!+]|M!).*?\*/) | (?P<refused>/\*)
    | (?P<string>'%s') | %s | (?P<name>`(?:[^`]++|``)*+`)
    | (?P<word>[A-Za-z0-9_$\x80-\U0010ffff]+) | (?P<sign>.)
    """
_ESCAPED = r"(?:[^%(mark)s\\]++|\\.)*+"
_PLAIN = r"[^%(mark)s]*+"
_NEST = re.compile(r"/\*|\*/")
_OPEN = frozenset({"'", '"', "`"})


def postgresql_tokens(sql: str) -> Iterator[SqlToken]:
    """Yield the tokens of PostgreSQL's SQL, where strings have no escapes unless they say so."""
    position = 0
    after_escapes = False
    while match := _POSTGRESQL.match(sql, position):
        kind = str(match.lastgroup)
        text = match[0]
        position = match.end()
        if kind == "nested":
            position = _end_of_nested(sql, position)
        elif kind == "dollar":
            end = sql.find(text, position)  # the string ends with the same tag between dollar signs
            if end < 0:
                raise RefusedError(ONLY_QUERIES.format(f"a string that begins with {text} and has no end"))
            position = end + len(text)
            yield SqlToken("string", "")
        elif kind == "string" and after_escapes:  # PostgreSQL joins the two, and reads both with escapes
            raise RefusedError(ONLY_QUERIES.format("a string in several parts"))
        else:
            yield from _token(kind, text, str.lower)
        if kind not in ("space", "nested"):
            after_escapes = kind == "escapes"


def mysql_tokens(sql: str, *, escapes: bool, ansi: bool) -> Iterator[SqlToken]:
    """Yield the tokens of MySQL's and MariaDB's SQL.

    With `escapes`, a backslash in a string escapes what is behind it (`sql_mode` without NO_BACKSLASH_ESCAPES); with
    `ansi`, double quotes are around names (ANSI_QUOTES).
    """
    pattern = _mysql_pattern(escapes, ansi)
    position = 0
    while match := pattern.match(sql, position):
        # what is in double quotes is in the group `name_` or `string_`: a pattern cannot have two groups of one name
        yield from _token(str(match.lastgroup).rstrip("_"), match[0], _folded)
        position = match.end()


@cache
def _mysql_pattern(escapes: bool, ansi: bool) -> re.Pattern[str]:
    inner = _ESCAPED if escapes else _PLAIN
    double = '(?P<name_>"(?:[^"]++|"")*+")' if ansi else f'(?P<string_>"{inner % {"mark": chr(34)}}")'
    return re.compile(_MYSQL % (inner % {"mark": "'"}, double))


def _token(kind: str, text: str, fold: Callable[[str], str]) -> Iterator[SqlToken]:
    """Yield the token of a piece of SQL without its content if that is a string; a comment yields none."""
    if kind == "refused" or (kind == "sign" and text in _OPEN):
        raise RefusedError(ONLY_QUERIES.format(f"what begins with {text}"))
    if kind == "word":
        yield SqlToken("word", fold(text))
    elif kind == "name":
        yield SqlToken("name", fold(text[1:-1]))
    elif kind in ("string", "escapes"):
        yield SqlToken("string", "")
    elif kind == "sign":
        yield SqlToken("sign", text)


def _end_of_nested(sql: str, position: int) -> int:
    depth = 1
    for mark in _NEST.finditer(sql, position):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return mark.end()
    raise RefusedError(ONLY_QUERIES.format("a comment that has no end"))


def _folded(name: str) -> str:
    """Return a name as a server compares it at its most tolerant: without case, accents and widths.

    >>> _folded("PROCE\u017f\u017fLIST")
    'processlist'
    """
    if name.isascii():
        return name.lower()
    letters = unicodedata.normalize("NFKD", name)
    without_accents = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return without_accents.upper().lower()  # upper first: it makes SS of the German sharp s


QUERIES = frozenset({"select", "with", "values", "table", "("})


@dataclass(frozen=True, slots=True)
class PostgresqlGate:
    """The check of PostgreSQL's SQL."""

    functions: Collection[str]  # names of functions that are refused
    relations: Collection[str]  # names of tables and views that are refused
    attributes: Collection[str] = ()  # functions that are refused in attribute notation: (value).name

    def check(self, sql: str) -> bool:
        """Return whether there is a statement at all; refuse one that may do more than read data."""
        tokens = _query(postgresql_tokens(sql))
        for index, (token, following) in enumerate(_pairs(tokens)):
            called = following == "(" and token.text in self.functions
            after_dot = index > 0 and tokens[index - 1] == SqlToken("sign", ".")
            if token.is_name and (called or (after_dot and token.text in self.attributes)):
                raise RefusedError(ONLY_QUERIES.format(f"the function {token.text}"))
            if token.is_name and token.text in self.relations:
                raise RefusedError(ONLY_QUERIES.format(f"reading {token.text}"))
        return bool(tokens)


@dataclass(frozen=True, slots=True)
class MysqlGate:
    """The check of MySQL's and MariaDB's SQL."""

    escapes: bool = True  # as in `mysql_tokens`
    ansi: bool = False  # as in `mysql_tokens`

    def check(self, sql: str) -> bool:
        """Return whether there is a statement at all; refuse one that may do more than read data."""
        tokens = _query(mysql_tokens(sql, escapes=self.escapes, ansi=self.ansi))
        for index, (token, following) in enumerate(_pairs(tokens)):
            if refused := _refused_words(token, following) or _refused_schema(tokens, index):
                raise RefusedError(ONLY_QUERIES.format(refused))
            if token.is_name and following == "(" and not _is_allowed_before_parenthesis(tokens, index):
                raise RefusedError(
                    f"The function {token.text} does not exist, or the sandbox does not allow it."
                )
        return bool(tokens)


def _query(tokens: Iterable[SqlToken]) -> list[SqlToken]:
    """Return the tokens of a query without semicolons at its end; [] where there is no statement.

    A statement of another kind is refused, and so are several statements.
    """
    query = list(tokens)
    while query and query[-1] == SqlToken("sign", ";"):
        query.pop()
    if query and query[0].text not in QUERIES:
        # The token of a string has the text "".
        word = query[0].text.upper()[:30] or "a string"
        raise RefusedError(ONLY_QUERIES.format(f"a statement that begins with {word}"))
    if SqlToken("sign", ";") in query:
        raise RefusedError(SEVERAL_STATEMENTS)
    return query


def _pairs(tokens: Sequence[SqlToken]) -> Iterable[tuple[SqlToken, str]]:
    """Yield each token with the text of the next one; "" where that is a string or quoted."""
    following = (token.text if token.kind in ("word", "sign") else "" for token in tokens[1:])
    return zip(tokens, [*following, ""], strict=False)


def _refused_words(token: SqlToken, following: str) -> str:
    """Return the keywords with which a query writes or locks, "" for none; they are reserved, so no names."""
    if token.kind != "word":
        return ""
    pair = f"{token.text} {following}"
    locks = pair in ("for update", "for share", "lock in", "next value")
    return pair.upper() if locks or token.text in ("into", "procedure") else ""


def _refused_schema(tokens: Sequence[SqlToken], index: int) -> str:
    """Return what is refused if the tokens from `index` on name a table of a system's schema; "" where nothing is."""
    token = tokens[index]
    if not token.is_name or index + 2 >= len(tokens) or tokens[index + 1] != SqlToken("sign", "."):
        return ""
    name = tokens[index + 2].text
    if token.text in ("mysql", "performance_schema", "sys"):
        return f"reading {token.text}.{name}"
    if token.text == "information_schema" and name not in METADATA:
        return f"reading {token.text}.{name}"
    return ""


def _is_allowed_before_parenthesis(tokens: Sequence[SqlToken], index: int) -> bool:
    """Return whether a name before a parenthesis is an allowed function, a keyword, or a new name of a table."""
    token = tokens[index]
    before = tokens[index - 1] if index else SqlToken("sign", "")
    if before == SqlToken("sign", "."):  # a function of a schema is none of the allowed ones
        return False
    if token.text in FUNCTIONS or (token.kind == "word" and token.text in SYNTAX):
        return True
    # WITH name (a, b) AS (...), (SELECT ...) AS name (a, b), (SELECT ...) name (a, b)
    is_after_word = before.kind == "word" and before.text in ("as", "with", "recursive")
    if is_after_word or before == SqlToken("sign", ")"):
        return True
    # WITH other (...) AS (...), name (a, b) AS (...)
    return before == SqlToken("sign", ",") and _is_followed_by_as(tokens, index + 1)


def _is_followed_by_as(tokens: Sequence[SqlToken], index: int) -> bool:
    """Return whether the parenthesis at `index` holds names only and ends before `AS (`, as in WITH."""
    for position in range(index + 1, len(tokens) - 2):
        if tokens[position] == SqlToken("sign", "("):
            return False
        if tokens[position] == SqlToken("sign", ")"):
            return tokens[position + 1] == SqlToken("word", "as") and tokens[position + 2] == SqlToken(
                "sign", "("
            )
    return False


FUNCTIONS = words_of(
    """
    abs acos add_months adddate addtime aes_decrypt aes_encrypt any_value ascii asin astext atan atan2 avg bin
    bin_to_uuid binary bit bit_and bit_count bit_length bit_or bit_xor blob cast ceil ceiling char char_length
    character_length charset chr coalesce coercibility collation column_add column_check column_create
    column_delete column_exists column_get column_json column_list compress concat concat_ws connection_id conv
    convert convert_tz cos cot count crc32 crc32c cume_dist curdate current_date current_role current_time
    current_timestamp current_user curtime database date date_add date_format date_sub datediff datetime day
    dayname dayofmonth dayofweek dayofyear default degrees dense_rank elt enum exp export_set extract
    extractvalue field find_in_set first_value float floor format format_bytes format_pico_time found_rows
    from_base64 from_days from_unixtime geomcollection geometrycollection geomfromtext get_format glength
    greatest group_concat grouping hex hour if ifnull inet6_aton inet6_ntoa inet_aton inet_ntoa insert instr
    interval is_ipv4 is_ipv4_compat is_ipv4_mapped is_ipv6 is_uuid isnull json_array json_array_append
    json_array_insert json_array_intersect json_arrayagg json_compact json_contains json_contains_path
    json_depth json_detailed json_equals json_exists json_extract json_insert json_key_value json_keys
    json_length json_loose json_merge json_merge_patch json_merge_preserve json_normalize json_object
    json_object_filter_keys json_object_to_array json_objectagg json_overlaps json_pretty json_query json_quote
    json_remove json_replace json_schema_valid json_schema_validation_report json_search json_set
    json_storage_free json_storage_size json_table json_type json_unquote json_valid json_value lag last_day
    last_insert_id last_value lcase lead least left length lengthb linestring ln localtime localtimestamp locate
    log log10 log2 lower lpad ltrim make_set makedate maketime max mbrcontains mbrcoveredby mbrcovers
    mbrdisjoint mbrequals mbrintersects mbroverlaps mbrtouches mbrwithin md5 median microsecond mid min minute
    mod month monthname multilinestring multipoint multipolygon name_const natural_sort_key now nth_value ntile
    nullif nvl nvl2 oct octet_length ord percent_rank percentile_cont percentile_disc period_add period_diff pi
    point pointfromtext polygon position pow power quarter quote radians rand random_bytes rank regexp_instr
    regexp_like regexp_replace regexp_substr repeat replace reverse right round row_count row_number rpad rtrim
    schema schemas sec_to_time second session_user sformat sha sha1 sha2 sign sin soundex space sqrt st_area
    st_asbinary st_asgeojson st_astext st_aswkb st_aswkt st_boundary st_buffer st_centroid st_collect
    st_contains st_convexhull st_crosses st_difference st_dimension st_disjoint st_distance st_distance_sphere
    st_endpoint st_envelope st_equals st_exteriorring st_geohash st_geomcollfromtext
    st_geometrycollectionfromtext st_geometryfromtext st_geometryn st_geometrytype st_geomfromgeojson
    st_geomfromtext st_geomfromwkb st_interiorringn st_intersection st_intersects st_isclosed st_isempty
    st_issimple st_isvalid st_latfromgeohash st_latitude st_length st_linefromtext st_linestringfromtext
    st_longfromgeohash st_longitude st_makeenvelope st_mpointfromtext st_numgeometries st_numinteriorrings
    st_numpoints st_overlaps st_pointfromgeohash st_pointfromtext st_pointfromwkb st_pointn st_polyfromtext
    st_polygonfromtext st_simplify st_srid st_startpoint st_swapxy st_symdifference st_touches st_transform
    st_union st_validate st_within st_x st_y std stddev stddev_pop stddev_samp str_to_date strcmp subdate substr
    substring substring_index subtime sum sys_guid sysdate system_user tan time time_format time_to_sec timediff
    timestamp timestampadd timestampdiff to_base64 to_char to_date to_days to_number to_seconds trim trunc
    truncate ucase uncompress uncompressed_length unhex unix_timestamp updatexml upper user utc_date utc_time
    utc_timestamp uuid uuid_short uuid_to_bin uuid_v4 uuid_v7 value values var_pop var_samp variance version
    week weekday weekofyear weight_string x y year yearweek
    """
)
"""Functions that SQL of MySQL and MariaDB may call: those of MariaDB's `information_schema.SQL_FUNCTIONS` and of
MySQL 8's manual, without those that lock, wait or read files. Any other function is installed by a user, or new."""
SYNTAX = words_of(
    """
    against all and any as between bigint both by case character columns cube dec decimal distinct distinctrow
    div double else end escape except exists fixed for force from group having high_priority ignore in index int
    int1 int2 int3 int4 int8 integer intersect is join key lateral leading like limit longtext match mediumint
    mediumtext minus nchar nested not null numeric nvarchar of offset on or over partition precision real regexp
    returning rlike rollup row rows select separator set sets signed smallint some sounds sql_calc_found_rows
    straight_join table text then tinyint tinytext to trailing union unsigned use using varbinary varchar
    varcharacter when where with within xor
    """
)
"""Keywords, of which some are types."""
METADATA = words_of(
    """
    character_sets check_constraints collations columns key_column_usage referential_constraints schemata
    statistics table_constraints tables views
    """
)
"""Tables of `information_schema` that describe data."""
