"""Rows of the demo database `football_league`: three seasons, their matches, line-ups and goals."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random
from typing import Any

from tasks.benchmarks.demo.draw import below, between, chance, pick, shuffled
from tasks.benchmarks.demo.names import people

Row = tuple[Any, ...]

CLUBS: tuple[Row, ...] = (
    (1, "Ashford Rovers", "Ashford Vale", 1894, "Vale Park", 18200),
    (2, "Brackmoor Town", "Brackmoor", 1902, "The Moorings", 9400),
    (3, "Calder Athletic", "Calder", 1911, "Bridge Road", 21500),
    (4, "Dunwick United", "Dunwick", 1888, "Cliff End", 12750),
    (5, "Eastmere City", "Eastmere", 1923, "City Arena", 31800),
    (6, "Fernhill Wanderers", "Fernhill", 1907, "Bracken Lane", 7600),
    (7, "Greyport Dockers", "Greyport", None, "Quay Ground", 14300),
    (8, "Hartwell Albion", "Hartwell", 1931, "Albion Field", None),
)
"""(club_id, name, town, founded, ground, cap)."""

STRENGTH = {1: 1.35, 2: 0.8, 3: 1.5, 4: 1.05, 5: 1.75, 6: 0.65, 7: 1.0, 8: 1.1}
"""Goals that a club scores in an average match."""

SEASONS: tuple[Row, ...] = (
    ("2021/22", "2021-08-14", "2022-05-07", "Norvik Bank"),
    ("2022/23", "2022-08-13", "2023-05-06", None),
    ("2023/24", "2023-08-12", "2024-05-04", "Halden Foods"),
)
"""(season, start, end, sponsor)."""

SQUAD = ("GK",) * 2 + ("DF",) * 6 + ("MF",) * 6 + ("FW",) * 4
ELEVEN = {"GK": 1, "DF": 4, "MF": 4, "FW": 2}
SCORING = {"GK": 0, "DF": 1, "MF": 3, "FW": 8}
FEET = ("R",) * 7 + ("L",) * 3 + ("B", None)


@dataclass(frozen=True, slots=True)
class Player:
    """One player of a squad while a match is drawn."""

    id: int
    position: str


Squads = dict[tuple[str, int], list[Player]]


def rows(rng: Random) -> Iterator[tuple[str, list[Row]]]:
    """Yield (table, rows) so that every parent comes before its children."""
    referees = [
        (number, f"{given} {family}", pick(rng, (1, 1, 2, 2, 3)), 2005 + below(rng, 16))
        for number, (given, family) in enumerate(people(rng, 12), start=1)
    ]
    players, squads, squad_rows = _squads(rng)
    matches, appearances, goals = _matches(rng, squads)
    yield "club", list(CLUBS)
    yield "season", list(SEASONS)
    yield "referee", list(referees)
    yield "player", players
    yield "squad", squad_rows
    yield "match", matches
    yield "appearance", appearances
    yield "goal", goals


def _squads(rng: Random) -> tuple[list[Row], Squads, list[Row]]:
    """Fill every club's squad; between seasons some players change clubs and a few make way for newcomers."""
    names = iter(people(rng, 400))
    players: list[Row] = []
    squads: Squads = {}
    squad_rows: list[Row] = []

    def newcomer(position: str) -> Player:
        born = date(1986, 1, 1) + timedelta(days=below(rng, 18 * 365))
        dob = born.isoformat() if chance(rng, 0.94) else None
        height = 166 + below(rng, 24) + (8 if position == "GK" else 0)
        known = chance(rng, 0.9)
        name = " ".join(next(names))
        players.append((len(players) + 1, name, dob, position, pick(rng, FEET), height if known else None))
        return Player(len(players), position)

    current = {club[0]: [newcomer(position) for position in SQUAD] for club in CLUBS}
    for season, *_ in SEASONS:
        if season != SEASONS[0][0]:
            _transfer(rng, current)
            for members in current.values():
                for _ in range(between(rng, 1, 3)):
                    place = below(rng, len(members))
                    members[place] = newcomer(members[place].position)
        for club_id, members in current.items():
            squads[season, club_id] = list(members)
            numbers = shuffled(rng, range(1, 31))
            for player, number in zip(members, numbers, strict=False):
                wage = int(18 + 40 * STRENGTH[club_id] * (0.4 + 2 * rng.random() ** 3))
                squad_rows.append((season, club_id, player.id, number, wage if chance(rng, 0.95) else None))
    return players, squads, squad_rows


def _transfer(rng: Random, current: dict[int, list[Player]]) -> None:
    """Swap players of one position between two clubs, ten times."""
    for _ in range(10):
        place = below(rng, len(SQUAD))
        one, other = between(rng, 1, 8), between(rng, 1, 8)
        first, second = current[one][place], current[other][place]
        current[one][place], current[other][place] = second, first


def _fixtures() -> list[list[tuple[int, int]]]:
    """Return the 14 rounds of a double round robin as lists of (home, away), by the circle method."""
    clubs = [club[0] for club in CLUBS]
    first_half: list[list[tuple[int, int]]] = []
    for number in range(len(clubs) - 1):
        pairs = [(clubs[i], clubs[-1 - i]) for i in range(len(clubs) // 2)]
        first_half.append([(b, a) if (number + i) % 2 else (a, b) for i, (a, b) in enumerate(pairs)])
        clubs = [clubs[0], clubs[-1], *clubs[1:-1]]
    return first_half + [[(away, home) for home, away in pairs] for pairs in first_half]


def _matches(rng: Random, squads: Squads) -> tuple[list[Row], list[Row], list[Row]]:
    matches: list[Row] = []
    appearances: list[Row] = []
    goals: list[Row] = []
    capacity = {club[0]: club[5] or 6000 for club in CLUBS}
    for season, start, _, _ in SEASONS:
        for number, pairs in enumerate(_fixtures(), start=1):
            saturday = date.fromisoformat(start) + timedelta(days=20 * (number - 1) // 7 * 7)
            for home, away in pairs:
                match_id = len(matches) + 1
                played = saturday + timedelta(days=pick(rng, (0, 0, 0, 1)))
                called_off = chance(rng, 0.025)
                referee = None if called_off else 1 + int(12 * rng.random() ** 1.5)
                score: list[int | None] = [None, None]
                crowd = None
                if not called_off:
                    line_ups = [_line_up(rng, squads[season, club]) for club in (home, away)]
                    for club, line_up in zip((home, away), line_ups, strict=True):
                        appearances.extend(
                            (match_id, player.id, season, club, on, off, card)
                            for player, on, off, card in line_up
                        )
                    scored = _goals(rng, match_id, STRENGTH[home] * 1.25, STRENGTH[away] * 0.9, line_ups)
                    goals.extend(row for row, _ in scored)
                    score = [sum(side == wanted for _, side in scored) for wanted in (0, 1)]
                    if chance(rng, 0.96):
                        crowd = int(capacity[home] * (0.35 + 0.3 * rng.random() + 0.15 * STRENGTH[away]))
                        crowd = min(crowd, capacity[home])
                matches.append(
                    (match_id, season, number, played.isoformat(), home, away, *score, crowd, referee)
                )
    return matches, appearances, goals


def _line_up(rng: Random, members: list[Player]) -> list[tuple[Player, int, int, str | None]]:
    """Choose eleven by position and up to three substitutes: (player, minute on, minute off, card)."""
    bench = shuffled(rng, members)
    # A club's first players are its regulars: two times in three the order of the squad list decides.
    if chance(rng, 0.67):
        bench.sort(key=lambda player: members.index(player))
    starters: list[Player] = []
    for position, wanted in ELEVEN.items():
        starters.extend([player for player in bench if player.position == position][:wanted])
    spare = [player for player in bench if player not in starters and player.position != "GK"]
    off = dict.fromkeys((player.id for player in starters), 90)
    line_up: list[tuple[Player, int, int, str | None]] = []
    for substitute in spare[: pick(rng, (0, 1, 2, 2, 3, 3))]:
        leaving = pick(rng, [p for p in starters if off[p.id] == 90 and p.position != "GK"])
        minute = 46 + below(rng, 40)
        off[leaving.id] = minute
        line_up.append((substitute, minute, 90, "Y" if chance(rng, 0.08) else None))
    for player in starters:
        card = _card(rng)
        if card == "R" and off[player.id] == 90:
            off[player.id] = 30 + below(rng, 60)
        line_up.append((player, 0, off[player.id], card))
    return line_up


def _card(rng: Random) -> str | None:
    draw = rng.random()
    return "R" if draw < 0.006 else "Y" if draw < 0.12 else None


def _goals(
    rng: Random,
    match_id: int,
    home_rate: float,
    away_rate: float,
    line_ups: list[list[tuple[Player, int, int, str | None]]],
) -> list[tuple[Row, int]]:
    """Draw goals minute by minute: (row, side that it counts for), own goals entered for who put them in."""
    scored: list[tuple[Row, int]] = []
    for minute in range(1, 91):
        for side, rate in enumerate((home_rate, away_rate)):
            if rng.random() >= rate / 90:
                continue
            kind = pick(rng, "NNNNNNNNNNNNPPO")
            owners = line_ups[1 - side] if kind == "O" else line_ups[side]
            present = [player for player, on, off, _ in owners if on < minute <= off]
            weighted = [p for p in present for _ in range(1 if kind == "O" else SCORING[p.position])]
            if not weighted:
                continue
            row = (match_id, len(scored) + 1, pick(rng, weighted).id, minute, kind)
            scored.append((row, side))
    return scored
