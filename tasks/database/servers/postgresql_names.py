"""Names that the sandbox refuses in PostgreSQL's SQL, read from the server's own catalog.

A function is let through where no variant of its name can look at more than its arguments (IMMUTABLE), where it is on
the list below, or where a user has made it and declared that it changes nothing (STABLE). What is left can execute text
as SQL, end sessions, lock, read files, write large objects, or tell of other sessions.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import psycopg

FUNCTIONS = """
    age array_sample array_shuffle array_to_json array_to_string clock_timestamp col_description concat concat_ws
    convert convert_from convert_to current_database current_schema current_schemas enum_first enum_last enum_range
    extract format format_type gen_random_uuid generate_series getdatabaseencoding in_range length localtime
    localtimestamp make_timestamptz money now numeric obj_description overlaps phraseto_tsquery pg_column_size pg_typeof
    plainto_tsquery quote_literal quote_nullable random random_normal row_to_json shobj_description statement_timestamp
    time timeofday timetz timezone transaction_timestamp ts_debug ts_headline unaccent uuidv4 uuidv7 version
    websearch_to_tsquery xml xml_is_well_formed
"""
FAMILIES = "^(json|jsonb|date|timestamp|timestamptz|to|has|st|uuid_generate)(_|$)"
"""Beginnings of functions of JSON, of moments, of conversions and formats, of rights, of PostGIS and of UUIDs."""
CATALOGS = """
    pg_attrdef pg_attribute pg_class pg_collation pg_constraint pg_description pg_enum pg_index pg_indexes pg_matviews
    pg_namespace pg_tables pg_timezone_abbrevs pg_timezone_names pg_type pg_views
"""
_FUNCTIONS = """
SELECT DISTINCT p.proname FROM pg_proc p
LEFT JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
WHERE p.provolatile <> 'i' AND NOT p.proname = ANY (%s) AND NOT p.proname ~ %s
  AND (p.provolatile = 'v' OR d.objid IS NOT NULL OR p.pronamespace = 'pg_catalog'::regnamespace)
"""
_RELATIONS = """
SELECT relname FROM pg_class WHERE relname ~ '^_?pg_' AND NOT relname = ANY (%s)
UNION ALL VALUES ('foreign_server_options'), ('user_mapping_options')
"""


class RefusedNames(NamedTuple):
    """Names that SQL may not use, as the server compares them."""

    functions: Collection[str]
    relations: Collection[str]


def refused_names(connection: "psycopg.Connection[tuple[str]]") -> RefusedNames:
    """Read the names of functions and relations that SQL may not use on a connection."""
    functions = connection.execute(_FUNCTIONS, [FUNCTIONS.split(), FAMILIES])
    relations = connection.execute(_RELATIONS, [CATALOGS.split()])
    return RefusedNames(
        *(frozenset(name for (name,) in found.fetchall()) for found in (functions, relations))
    )
