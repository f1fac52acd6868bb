"""The first look at SQL for a server: one query, and no function or view that reaches beyond the data.

It is not what protects the data: the role, the read-only transaction and the protocol, which takes one statement only,
do that. It gives one clear sentence instead of many, and keeps the text of other sessions' SQL, the gold's among them,
from being read.
"""

import re
from dataclasses import dataclass

QUERIES = frozenset({"select", "with", "values", "table"})
ONLY_QUERIES = "The sandbox only lets a query read this database: {} is not allowed."


class RefusedError(Exception):
    """SQL that the sandbox does not give to the server; the message says why."""


@dataclass(frozen=True, slots=True)
class Gate:
    """What a server's SQL may not hold.

    Attributes:
        comment: pattern of blanks and comments before the first word.
        refused: pattern of names that are refused, of functions with what begins their arguments, or a comment before
            these; the first group that matches is the name that the message gives.
    """

    comment: re.Pattern[str]
    refused: re.Pattern[str]

    def check(self, sql: str) -> bool:
        """Return whether there is a statement at all.

        Raises:
            RefusedError: it is no query, or has a name that is refused.
        """
        blank = self.comment.match(sql)
        start = sql[blank.end() if blank else 0 :]
        if not start.strip(" \t\r\n;"):
            return False
        first = re.match(r"\(*\s*(\w+)", start)
        word = first.group(1).lower() if first else start[:1]
        if word not in QUERIES and not start.startswith("("):
            raise RefusedError(ONLY_QUERIES.format(f"a statement that begins with {word.upper()[:30]}"))
        if found := self.refused.search(sql):
            name = next(part for part in found.groups() if part)
            raise RefusedError(ONLY_QUERIES.format(name[:60]))
        return True


POSTGRESQL = Gate(
    re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*(?:[^*]|\*(?!/))*\*/)*"),
    re.compile(
        r"""(?ix) \b(
            pg_(?:terminate|cancel)_backend | pg_read_\w*file | pg_ls_\w+ | pg_stat_file | pg_current_logfile
            | pg_reload_conf | pg_rotate_logfile | pg_promote | pg_switch_wal | pg_create_\w+ | pg_drop_\w+
            | pg_logical_\w+ | pg_replication_\w+ | pg_export_snapshot | pg_file_\w+ | pg_notify | pg_backup_\w+
            | pg_(?:try_)?advisory_\w+ | pg_log_\w+ | lo_\w+ | loread | lowrite | set_config | dblink\w*
            | (?:query|table|cursor|schema|database)_to_xml\w* | ts_stat | pg_stat_get_activity
            | pg_stat_get_backend_activity\w* | pg_blocking_pids
        )"?\s*(?:\(|--|/\*)
        | \b(pg_stat_activity | pg_stat_statements\w* | pg_prepared_statements | pg_cursors | pg_authid | pg_shadow
            | pg_hba_file_rules | pg_file_settings | pg_user_mapping\w*)\b
        | (u&")"""
    ),
)
MYSQL = Gate(
    re.compile(r"(?:\s|--\s[^\n]*(?:\n|\Z)|\#[^\n]*(?:\n|\Z)|/\*(?![!M])(?:[^*]|\*(?!/))*\*/)*"),
    re.compile(
        r"""(?ix)
        (/\*M?!) | \b(into\s+(?:outfile|dumpfile)) | \b(load_file|get_lock|release_lock|release_all_locks
            |master_pos_wait|master_gtid_wait|source_pos_wait|sys_exec|sys_eval)\s*(?:\(|--|\#|/\*)
        | \b(processlist | user_privileges) \b | \b(performance_schema | mysql | sys)`?\s*\."""
    ),
)
