"""Rows of the demo database `energy_grid`: 320 meters read monthly for two years, and 420 outages."""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from random import Random
from typing import Any

from tasks.benchmarks.demo.draw import (
    bell,
    below,
    between,
    chance,
    clock,
    day,
    pick,
    pick_skewed,
    pick_weighted,
    sample,
)

Row = tuple[Any, ...]

METERS = 320
OUTAGES = 420
MONTHS = tuple(f"{year}-{month:02d}" for year in (2022, 2023) for month in range(1, 13))

REGIONS: tuple[Row, ...] = (
    (1, "Aldermoor", "Northline Networks", 1840),
    (2, "Bexhill Plain", "Northline Networks", 2275),
    (3, "Cawder Valley", "Union Grid", 1390),
    (4, "Dunmarsh", "Union Grid", 960),
    (5, "Eskdale", "Coastal Power", 2710),
    (6, "Fallow Isles", "Coastal Power", 415),
)
"""(region_id, name, operator, area_km2)."""

SUBSTATIONS: tuple[Row, ...] = (
    (1, 1, "Alder North", 110, "1974-06-01", 63.0, "P"),
    (2, 1, "Alder South", 110, "1981-09-15", 80.0, "P"),
    (3, 1, "Millbeck", 20, "1996-04-20", 16.0, "M"),
    (4, 1, "Rooksgate", 20, "2009-11-03", 20.0, "L"),
    (5, 2, "Bexhill Main", 220, "1968-05-10", 160.0, "P"),
    (6, 2, "Plainfield", 20, "1990-03-28", 12.5, "M"),
    (7, 2, "Wheatley", 20, "2013-07-19", 25.0, "L"),
    (8, 3, "Cawder Bridge", 110, "1979-10-05", 71.5, "P"),
    (9, 3, "Upper Cawder", 20, "2001-08-14", 14.0, "M"),
    (10, 3, "Tanner Row", 20, "2016-02-09", 22.0, None),
    (11, 4, "Dunmarsh East", 110, "1985-12-01", 50.0, "P"),
    (12, 4, "Saltings", 20, "1993-06-30", 10.0, "M"),
    (13, 4, "Pumphouse", 20, "2005-05-17", 18.0, "L"),
    (14, 5, "Esk Junction", 220, "1972-09-22", 140.0, "P"),
    (15, 5, "Esk Harbour", 110, "1988-01-11", 90.0, "P"),
    (16, 5, "Ravenscar", 20, "1999-10-27", 15.0, "M"),
    (17, 5, "Netherby", 20, "2018-06-06", 28.0, "L"),
    (18, 6, "Fallow Head", 110, "1991-04-04", 40.0, "P"),
    (19, 6, "Gull Point", 20, "2011-09-12", 8.5, "M"),
    (20, 6, "Skerry", 20, "2020-03-25", 9.0, None),
)
"""(sub_id, region_id, name, A3, A7, A11, A12): voltage in kV, commissioned, capacity in MVA, ownership."""

TARIFFS: tuple[Row, ...] = (
    (1, "Home Basic", 28.4, None, 9.9, "01/04/2019"),
    (2, "Home Day & Night", 31.2, 19.6, 11.5, "01/10/2020"),
    (3, "Home Solar", 29.8, 21.3, 12.4, "15/03/2021"),
    (4, "Trade", 25.7, 18.2, 24.0, "01/01/2020"),
    (5, "Trade Plus", 23.9, 16.4, 38.5, "01/07/2021"),
    (6, "Industry", 18.6, 12.9, 145.0, "01/01/2018"),
    (7, "Public Sector", 22.8, 15.1, 30.0, "15/09/2019"),
    (8, "Street Light", 17.5, 11.2, 6.0, "01/04/2016"),
)
"""(tariff_id, name, c1, c2, fee, valid_from): cents per kWh by day and night, monthly fee."""

GROUPS: tuple[Row, ...] = (
    (1, "flat", "household", 1),
    (2, "house", "household", 2),
    (3, "solar house", "household", 3),
    (4, "shop", "commerce", 4),
    (5, "restaurant", "commerce", 4),
    (6, "office", "commerce", 5),
    (7, "workshop", "industry", 5),
    (8, "factory", "industry", 6),
    (9, "school", "public", 7),
    (10, "street lighting", "public", 8),
)
"""(group_id, label, sector, tariff_id)."""

GROUP_WEIGHTS = (26, 24, 13, 10, 6, 7, 5, 3, 4, 2)
DAY_USE = (150, 260, 210, 820, 1450, 1900, 3100, 21500, 2700, 40)
NIGHT_USE = (70, 150, 110, 310, 640, 520, 900, 13800, 560, 1300)

CREWS: tuple[Row, ...] = (
    (1, "Amber", 1, 4, "2023-11-14"),
    (2, "Birch", 1, 3, "2023-09-02"),
    (3, "Cobalt", 2, 5, "2023-12-01"),
    (4, "Drift", 2, 4, None),
    (5, "Ember", 3, 4, "2023-10-20"),
    (6, "Falcon", 4, 3, "2023-08-17"),
    (7, "Granite", 5, 6, "2023-12-12"),
    (8, "Heron", 5, 4, "2023-07-08"),
    (9, "Iris", 6, 2, None),
    (10, "Juniper", 3, 5, "2023-11-30"),
    (11, "Kestrel", 4, 5, None),
)
"""(crew_id, name, region_id, team size, check); the last was never sent out."""

CAUSES = ("W", "E", "T", "A", "D", None)
CAUSE_WEIGHTS = (34, 24, 15, 9, 8, 10)


def rows(random: Random) -> Iterator[tuple[str, list[Row]]]:
    """Yield every table's name and rows, parents first."""
    yield "region", list(REGIONS)
    yield "substation", list(SUBSTATIONS)
    yield "tariff", list(TARIFFS)
    yield "group", list(GROUPS)
    meters = list(_meters(random))
    yield "meter", meters
    yield "reading", [reading for meter in meters for reading in _readings(random, meter)]
    outages = list(_outages(random))
    yield "outage", outages
    yield "crew", list(CREWS)
    yield "outage_crew", [visit for outage in outages for visit in _visits(random, outage)]


def _meters(random: Random) -> Iterator[Row]:
    low = [row[0] for row in SUBSTATIONS if row[0] != 20]
    for number in range(1, METERS + 1):
        group_id = pick_weighted(random, [row[0] for row in GROUPS], GROUP_WEIGHTS)
        installed = day(random, date(2010, 1, 1), date(2023, 3, 31))
        removed = (
            day(random, date(2023, 5, 1), date(2023, 12, 20)).isoformat() if chance(random, 0.05) else None
        )
        phases = 3 if group_id in {5, 6, 7, 8, 9} or chance(random, 0.3) else 1
        solar = 1 if group_id == 3 or (group_id in {4, 6, 9} and chance(random, 0.15)) else 0
        serial = f"{pick(random, 'KLM')}{between(random, 10, 99)}-{number:04d}"
        yield (
            number,
            serial,
            pick_skewed(random, low, 1.3),
            group_id,
            installed.isoformat(),
            removed,
            phases,
            solar,
        )


def _readings(random: Random, meter: Row) -> Iterator[Row]:
    meter_id, _, _, group_id, installed_on, removed_on, _, solar = meter
    scale = 0.6 + 0.9 * random.random()
    for number, month in enumerate(MONTHS):
        if f"{month}-28" < installed_on or (removed_on and month > removed_on[:7]):
            continue
        summer = 1 - abs(6 - number % 12) / 6
        season = 1.25 - 0.45 * summer
        by_day = max(0.0, bell(random, DAY_USE[group_id - 1] * scale * season, DAY_USE[group_id - 1] * 0.12))
        by_night = max(
            0.0, bell(random, NIGHT_USE[group_id - 1] * scale * season, NIGHT_USE[group_id - 1] * 0.1)
        )
        fed_in = round(max(4.0, bell(random, 45 + 185 * summer, 45)) * scale, 1) if solar else None
        flag = pick_weighted(random, ("A", "E", "M"), (88, 9, 3))
        yield meter_id, month, round(by_day, 1), round(by_night, 1), fed_in, flag


def _outages(random: Random) -> Iterator[Row]:
    low = [row[0] for row in SUBSTATIONS]
    begins = sorted(
        f"{day(random, date(2022, 1, 1), date(2023, 12, 30))} {clock(random, 0, 23)}" for _ in range(OUTAGES)
    )
    for number, began_at in enumerate(begins, 1):
        sub_id = low[-1 - int(len(low) * random.random() ** 1.4)]
        cause = pick_weighted(random, CAUSES, CAUSE_WEIGHTS)
        minutes = 8 + int(540 * random.random() ** 3) + (below(random, 400) if cause == "W" else 0)
        ended = datetime.fromisoformat(began_at) + timedelta(minutes=minutes, seconds=below(random, 60))
        ended_at = None if number > OUTAGES - 4 else str(ended)
        customers = 12 + int(4200 * random.random() ** 4)
        yield number, sub_id, began_at, ended_at, cause, customers


def _visits(random: Random, outage: Row) -> Iterator[Row]:
    outage_id, sub_id, began_at, ended_at, _, customers = outage
    region_id = SUBSTATIONS[sub_id - 1][1]
    near = [row[0] for row in CREWS[:-1] if row[2] == region_id]
    far = [row[0] for row in CREWS[:-1] if row[2] != region_id]
    count = pick_weighted(random, (0, 1, 2, 3), (12, 55, 24, 9 if customers > 800 else 1))
    chosen = sample(random, near, count) + sample(random, far, max(0, count - len(near)))
    for crew_id in sorted(chosen):
        arrived = datetime.fromisoformat(began_at) + timedelta(minutes=between(random, 6, 95))
        hours = None
        if ended_at and not chance(random, 0.06):
            hours = round(0.5 + 5.5 * random.random() ** 1.6, 1)
        yield outage_id, crew_id, str(arrived), hours
