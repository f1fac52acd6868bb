"""DISTINCT taken out of a query, as the Spider test-suite evaluation does by default."""

from functools import lru_cache

from tasks.sql.parsing import tokens


@lru_cache(maxsize=4096)
def without_distinct(sql: str, dialect: str = "sqlite") -> str:
    """Return the SQL without its DISTINCT keywords, all else to the letter.

    IS DISTINCT FROM and DISTINCT ON stay, they mean something else. A SQL that cannot be read comes back as
    it is.

    >>> without_distinct("SELECT DISTINCT a, count(DISTINCT b) FROM `distinct`")
    'SELECT a, count(b) FROM `distinct`'
    """
    read = tokens(sql, dialect)
    if read is None:
        return sql
    kept, position = [], 0
    for index, token in enumerate(read):
        if token.token_type.name != "DISTINCT" or sql[token.start : token.end + 1].upper() != "DISTINCT":
            continue
        before = read[index - 1].text.upper() if index else ""
        after = read[index + 1].text.upper() if index + 1 < len(read) else ""
        if after == "ON" or (after == "FROM" and before in ("IS", "NOT")):
            continue
        end = token.end + 1
        while end < len(sql) and sql[end].isspace():
            end += 1
        # "SELECT(DISTINCT" and "DISTINCT(a)" need no blank, "SELECT DISTINCT`a`" keeps the one before
        kept.append(sql[position : token.start])
        position = end
    return "".join([*kept, sql[position:]])
