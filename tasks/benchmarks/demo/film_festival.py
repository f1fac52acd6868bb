"""Rows of the demo database `film_festival`: eight editions, 190 films, their screenings, awards, votes."""

from collections.abc import Iterator
from datetime import date, timedelta
from random import Random
from typing import Any

from tasks.benchmarks.demo.draw import (
    bell,
    below,
    between,
    chance,
    day,
    pick,
    pick_skewed,
    pick_weighted,
    sample,
    shuffled,
)
from tasks.benchmarks.demo.names import people

Row = tuple[Any, ...]

FILMS = 190
PEOPLE = 340
JURORS = 26

EDITIONS: tuple[Row, ...] = (
    (2017, "Borders", "2017-09-07", "2017-09-14", 310_000),
    (2018, "Rivers", "2018-09-06", "2018-09-13", 345_000),
    (2019, "The Night Shift", "2019-09-05", "2019-09-14", 402_000),
    (2020, "Distance", "2020-10-01", "2020-10-05", None),
    (2021, "Return", "2021-09-09", "2021-09-15", 268_000),
    (2022, "Archive", "2022-09-08", "2022-09-16", 390_000),
    (2023, "Small Towns", "2023-09-07", "2023-09-16", 455_000),
    (2024, "Weather", "2024-09-05", "2024-09-15", 478_000),
)
"""(year, theme, opens_on, closes_on, budget)."""

FILMS_A_YEAR = (22, 24, 27, 11, 19, 25, 30, 32)

VENUES: tuple[Row, ...] = (
    (1, "Palace Cinema", "Old Town", 620, "Y"),
    (2, "Lantern Hall", "Old Town", 340, "N"),
    (3, "Studio 5", "Docklands", 180, "Y"),
    (4, "The Warehouse", "Docklands", 265, "Y"),
    (5, "Corner Picture House", "Northgate", 148, "N"),
    (6, "University Auditorium", "Northgate", 410, "Y"),
    (7, "Garden Screen", "Riverside", 300, None),
    (8, "Little Rex", "Riverside", 96, "N"),
    (9, "Museum Theatre", "Old Town", 210, "Y"),
)
"""(venue_id, name, district, seat count, step_free)."""

VENUE_WEIGHTS = (12, 10, 14, 11, 9, 8, 5, 9, 0)

AWARDS: tuple[Row, ...] = (
    (1, "Golden Lantern", "main competition", 30_000),
    (2, "Silver Lantern", "main competition", 12_000),
    (3, "Best Screenplay", "main competition", 8_000),
    (4, "Best Documentary", "documentary", 10_000),
    (5, "New Voices Prize", "debut", 6_000),
    (6, "Best Short Film", "short", 4_000),
    (7, "Audience Award", "all sections", None),
)
"""(award_id, name, section, prize)."""

COUNTRIES = (
    "France", "Japan", "Brazil", "Germany", "South Korea", "Iran", "Mexico", "Poland",
    "Nigeria", "India", "Norway", "Argentina", "Morocco", "Canada", "Georgia",
)  # fmt: skip

LANGUAGES = {
    "France": "French", "Japan": "Japanese", "Brazil": "Portuguese", "Germany": "German",
    "South Korea": "Korean", "Iran": "Persian", "Mexico": "Spanish", "Poland": "Polish", "Nigeria": "English",
    "India": "Hindi", "Norway": "Norwegian", "Argentina": "Spanish", "Morocco": "Arabic", "Canada": "French",
    "Georgia": "Georgian",
}  # fmt: skip

FIRST_WORDS = (
    "Quiet", "Northern", "Last", "Paper", "Glass", "Hidden", "Winter", "Broken", "Distant", "Second", "Salt",
    "Blue", "Unwritten", "Slow", "Empty", "Copper", "Borrowed", "Restless", "Open", "Silver", "Forgotten",
    "Long", "Early", "Burning", "Painted",
)  # fmt: skip
SECOND_WORDS = (
    "Harbour", "Letters", "Orchard", "Station", "Season", "Rooms", "Bridge", "Garden", "Summer", "Voices",
    "Map", "Island", "Hour", "Mountain", "Kitchen", "Window", "Choir", "Road", "Tide", "Witness", "Field",
    "Lantern", "Shadow", "Market", "River",
)  # fmt: skip


def rows(random: Random) -> Iterator[tuple[str, list[Row]]]:
    """Yield every table's name and rows, parents first."""
    yield "edition", list(EDITIONS)
    persons = list(_people(random))
    yield "person", persons
    entered = [year for (year, *_), count in zip(EDITIONS, FILMS_A_YEAR, strict=True) for _ in range(count)]
    films = list(_films(random, entered))
    yield "film", films
    yield "credit", [credit for film in films for credit in _credits(random, film, persons)]
    yield "venue", list(VENUES)
    yield "screening", list(_screenings(random, films, entered))
    yield "award", list(AWARDS)
    yield "nomination", list(_nominations(random, films, entered))
    yield "jury vote", list(_votes(random, films, entered, persons[-JURORS:]))


def _people(random: Random) -> Iterator[Row]:
    for number, (given, family) in enumerate(people(random, PEOPLE), 1):
        born = day(random, date(1941, 1, 1), date(1999, 12, 31)).isoformat() if chance(random, 0.83) else None
        yield number, f"{given} {family}", pick_skewed(random, COUNTRIES, 1.4), born


def _films(random: Random, entered: list[int]) -> Iterator[Row]:
    titles = shuffled(random, [f"{first} {second}" for first in FIRST_WORDS for second in SECOND_WORDS])
    for number, year in enumerate(entered, 1):
        kind = pick_weighted(random, ("F", "D", "S"), (56, 24, 20))
        country = pick_skewed(random, COUNTRIES, 1.6)
        language = None if kind == "S" and chance(random, 0.3) else LANGUAGES[country]
        minutes = {"F": between(random, 78, 158), "D": between(random, 52, 124), "S": between(random, 6, 34)}[
            kind
        ]
        produced = year - (1 if chance(random, 0.45) else 0)
        yield number, titles[number], country, language, minutes, produced, kind


def _credits(random: Random, film: Row, persons: list[Row]) -> Iterator[Row]:
    film_id, _, _, _, _, _, kind = film
    pool = persons[:-JURORS]
    directors = sample(random, pool[:120], 2 if chance(random, 0.09) else 1)
    for director in directors:
        yield film_id, director[0], "director"
        if chance(random, 0.4):
            yield film_id, director[0], "writer"
    crew = sample(random, pool[90:], 8)
    if kind != "D" or chance(random, 0.3):
        yield film_id, crew[0][0], "writer"
    if kind != "D":
        for actor in crew[1 : between(random, 3, 5)]:
            yield film_id, actor[0], "actor"
    if chance(random, 0.7):
        yield film_id, crew[5][0], "composer"
    if chance(random, 0.8):
        yield film_id, crew[6][0], "editor"


def _screenings(random: Random, films: list[Row], entered: list[int]) -> Iterator[Row]:
    dates = {
        year: (date.fromisoformat(first), date.fromisoformat(last)) for year, _, first, last, _ in EDITIONS
    }
    number = 0
    for film, year in zip(films, entered, strict=True):
        taste = 0.25 + 0.75 * random.random()
        for showing in range(pick_weighted(random, (0, 1, 2, 3, 4, 5), (3, 17, 32, 27, 14, 7))):
            number += 1
            venue = pick_weighted(random, VENUES, VENUE_WEIGHTS)
            first, last = dates[year]
            on = day(random, first, last - timedelta(days=1))
            hour = pick(random, (10, 12, 14, 16, 18, 19, 20, 21))
            starts_at = f"{on} {hour:02d}:{pick(random, ('00', '15', '30'))}"
            limit = 0.5 if year == 2020 else 1.0
            sold = int(venue[3] * limit * min(1.0, max(0.04, bell(random, taste, 0.2))))
            price = pick_weighted(random, (7.5, 9.0, 11.0, 14.0), (25, 45, 22, 8))
            talk = 1 if showing == 0 and chance(random, 0.45) else 0
            yield number, film[0], year, venue[0], starts_at, sold, price, talk


def _nominations(random: Random, films: list[Row], entered: list[int]) -> Iterator[Row]:
    for year, *_ in EDITIONS:
        shown = [film for film, entry in zip(films, entered, strict=True) if entry == year]
        for award_id, *_ in AWARDS:
            wanted = {4: "D", 6: "S"}.get(award_id)
            eligible = [film for film in shown if film[6] == wanted or (not wanted and film[6] != "S")]
            chosen = sample(random, eligible, 3 if year == 2020 else between(random, 4, 6))
            for place, film in enumerate(chosen):
                yield year, award_id, film[0], int(place == 0)


def _votes(random: Random, films: list[Row], entered: list[int], jurors: list[Row]) -> Iterator[Row]:
    for film, year in zip(films, entered, strict=True):
        merit = 4.4 + 4.2 * random.random()
        opening = date.fromisoformat(next(row[2] for row in EDITIONS if row[0] == year))
        for juror in sample(random, jurors, between(random, 5, 9)):
            points = None if chance(random, 0.05) else min(10, max(1, round(bell(random, merit, 1.4))))
            yield film[0], juror[0], points, (opening + timedelta(days=1 + below(random, 4))).isoformat()
