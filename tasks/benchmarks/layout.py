"""What tells one benchmark's file layout from another's."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileLayout:
    """Key names and places of a layout; everything else is shared by BIRD and Spider.

    Attributes:
        name: the layout's name in the settings.
        sql_keys: keys that may hold the SQL of a question, the first present one counts.
        graded: whether a question's "difficulty" is in the file.
        descriptions: name of the folder of description CSVs beside each database file, None without one.
    """

    name: str
    sql_keys: tuple[str, ...]
    graded: bool
    descriptions: str | None
