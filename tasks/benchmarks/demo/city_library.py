"""Rows of the demo database `city_library`: a library's branches, holdings, members and loans."""

from collections.abc import Iterator
from datetime import date, timedelta
from random import Random
from typing import Any

from tasks.benchmarks.demo.draw import below, between, chance, day, pick, pick_skewed, shuffled
from tasks.benchmarks.demo.names import people

Row = tuple[Any, ...]

FIRST_LOAN = date(2023, 1, 2)
LAST_LOAN = date(2024, 12, 30)
LOANS = 1650

BRANCHES: tuple[Row, ...] = (
    ("CEN", "Central Library", "Old Town", "1961-05-14", 5200),
    ("HBR", "Harbour Branch", "Docks", "1987-09-01", 940),
    ("MLL", "Mill Lane Branch", "North Fields", "1974-03-18", 1150),
    ("ORC", "Orchard Branch", "North Fields", "2009-10-05", 760),
    ("PRK", "Parkside Branch", "Green Belt", "1998-06-20", 880),
    ("STN", "Station Branch", "Old Town", "2019-02-11", None),
)
"""(code, name, district, opened, sq_m)."""

BRANCH_SHARE = ("CEN",) * 9 + ("MLL",) * 4 + ("PRK",) * 3 + ("HBR",) * 3 + ("ORC",) * 2 + ("STN",)
COUNTRIES = ("Averland",) * 9 + ("Borrin",) * 5 + ("Castra",) * 4 + ("Dovania",) * 2 + (None,) * 2
CLASSES = (
    ("FIC",) * 9
    + ("CRI",) * 6
    + ("CHI",) * 6
    + ("HIS",) * 4
    + ("SCI",) * 4
    + ("TRA",) * 3
    + ("ART",) * 2
    + ("POE",)
)
LANGUAGES = ("en",) * 14 + ("fr",) * 3 + ("es",) * 3 + ("de",) * 2 + ("sw",)
VENDORS = ("Lantern Books",) * 5 + ("Paper Mill Ltd",) * 3 + ("Quayside Press",) * 2 + ("Rook & Daughters",)
GROUPS = ("A",) * 11 + ("J",) * 5 + ("S",) * 4 + ("V",)

OPENINGS = (
    "The Quiet", "The Last", "A Distant", "The Broken", "An Unlikely", "The Glass", "The Winter",
    "A Borrowed", "The Salt",
)  # fmt: skip
THINGS = (
    "Harbour", "Orchard", "Letter", "Compass", "Kingdom", "Garden", "Clockmaker", "River",
    "Lighthouse", "Journey", "Window", "Machine", "Mountain", "Witness", "Feast", "Island",
)  # fmt: skip


def rows(rng: Random) -> Iterator[tuple[str, list[Row]]]:
    """Yield (table, rows) so that every parent comes before its children."""
    authors = _authors(rng)
    works = _works(rng)
    copies = _copies(rng, works)
    members = _members(rng)
    yield "branch", list(BRANCHES)
    yield "author", authors
    yield "work", works
    yield "work_author", _work_authors(rng, works, authors)
    yield "copy", copies
    yield "member", members
    yield "loan", _loans(rng, copies, members)
    yield "order", _orders(rng, works)


def _authors(rng: Random) -> list[Row]:
    rows: list[Row] = []
    for number, (given, family) in enumerate(people(rng, 64), start=1):
        born = between(rng, 1880, 1991) if chance(rng, 0.9) else None
        died = born + between(rng, 38, 92) if born is not None else None
        died = died if died is not None and died <= 2022 else None
        rows.append((number, f"{given} {family}", pick(rng, COUNTRIES), born, died))
    return rows


def _works(rng: Random) -> list[Row]:
    titles = [f"{first} {last}" for last in THINGS for first in OPENINGS]
    rows: list[Row] = []
    for number, title in enumerate(titles, start=1):
        cls = pick(rng, CLASSES)
        year = 2023 - int(75 * rng.random() ** 1.5) if chance(rng, 0.95) else None
        longest = 120 if cls in ("CHI", "POE") else 520
        pages = 60 + below(rng, longest) if chance(rng, 0.93) else None
        rows.append((number, title, f"{cls} {number * 7 % 1000:03d}", cls, pick(rng, LANGUAGES), year, pages))
    return rows


def _work_authors(rng: Random, works: list[Row], authors: list[Row]) -> list[Row]:
    rows: list[Row] = []
    for work_id, _, _, cls, lang, *_ in works:
        roles = ["A"]
        if chance(rng, 0.12):
            roles.append("A")
        if lang == "en" and chance(rng, 0.2):
            roles.append("T")
        if cls == "CHI" and chance(rng, 0.7):
            roles.append("I")
        chosen: list[int] = []
        while len(chosen) < len(roles):
            author_id = pick_skewed(rng, authors, 1.5)[0]
            if author_id not in chosen:
                chosen.append(author_id)
        rows.extend((work_id, author_id, role) for author_id, role in zip(chosen, roles, strict=True))
    return rows


def _copies(rng: Random, works: list[Row]) -> list[Row]:
    rows: list[Row] = []
    for work_id, *_ in works:
        for copy_no in range(1, 2 + int(6 * rng.random() ** 2)):
            acquired = day(rng, date(2012, 1, 9), date(2023, 12, 11))
            age = 2024 - acquired.year
            cond = min(5, 1 + int(rng.random() * (1.5 + age / 3)))
            rows.append((work_id, copy_no, pick(rng, BRANCH_SHARE), cond, acquired.isoformat()))
    return rows


def _members(rng: Random) -> list[Row]:
    rows: list[Row] = []
    born_between = {"A": (1962, 2005), "J": (2008, 2017), "S": (1935, 1957), "V": (1950, 2003)}
    for number, (given, family) in enumerate(people(rng, 230), start=1001):
        group = pick(rng, GROUPS)
        first, last = born_between[group]
        born = day(rng, date(first, 1, 1), date(last, 12, 31)) if chance(rng, 0.92) else None
        joined = day(rng, date(2018 if group == "J" else 2011, 1, 5), date(2024, 10, 31))
        home = pick(rng, BRANCH_SHARE) if chance(rng, 0.96) else None
        name = f"{given} {family}"
        address = f"{given}.{family}@mail.example".lower()
        email = address if chance(rng, 0.45 if group == "J" else 0.8) else None
        blocked = int(chance(rng, 0.06))
        rows.append(
            (number, name, born and born.isoformat(), group, joined.isoformat(), home, email, blocked)
        )
    return rows


def _loans(rng: Random, copies: list[Row], members: list[Row]) -> list[Row]:
    """Draw loans by date; no copy is out twice at a time, nobody borrows before joining."""
    days = sorted(day(rng, FIRST_LOAN, LAST_LOAN) for _ in range(LOANS))
    popular = shuffled(rng, copies)
    keen = shuffled(rng, members)
    free_from: dict[tuple[int, int], date] = {}
    rows: list[Row] = []
    for loan_id, lent in enumerate(days, start=1):
        while True:
            copy = pick_skewed(rng, popular, 1.7)
            key = (copy[0], copy[1])
            if copy[3] < 5 and copy[4] < str(lent) and free_from.get(key, lent) <= lent:
                break
        while True:
            member = pick_skewed(rng, keen, 1.6)
            if member[4] <= str(lent):
                break
        renewals = pick(rng, (0, 0, 0, 0, 0, 1, 1, 2))
        due = lent + timedelta(days=28 + 14 * renewals)
        late = chance(rng, 0.17)
        returned = due + timedelta(days=between(rng, 1, 39)) if late else day(rng, lent, due)
        lost = chance(rng, 0.008)
        if lost or returned > date(2024, 12, 31):
            free_from[key] = date(2099, 1, 1)
            rows.append((loan_id, *key, member[0], str(lent), str(due), None, renewals, None))
            continue
        free_from[key] = returned + timedelta(days=1)
        fine = 20 * (returned - due).days if late and member[3] != "V" else None
        rows.append((loan_id, *key, member[0], str(lent), str(due), str(returned), renewals, fine))
    return rows


def _orders(rng: Random, works: list[Row]) -> list[Row]:
    rows: list[Row] = []
    days = sorted(day(rng, date(2023, 1, 9), date(2024, 12, 13)) for _ in range(140))
    for order_id, placed in enumerate(days, start=5001):
        arrival = placed + timedelta(days=between(rng, 4, 80))
        status = "X" if chance(rng, 0.08) else "A" if arrival <= date(2024, 12, 31) else "P"
        rows.append(
            (
                order_id,
                pick(rng, works)[0],
                pick(rng, BRANCH_SHARE),
                pick(rng, VENDORS),
                1 + int(8 * rng.random() ** 2),
                395 + 5 * below(rng, 520),
                placed.isoformat(),
                arrival.isoformat() if status == "A" else None,
                status,
            )
        )
    return rows
