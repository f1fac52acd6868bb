"""Rows of the demo database `university_labs`: 23 labs, 170 researchers, 130 grants and 620 papers."""

from collections.abc import Iterator
from datetime import date, timedelta
from random import Random
from typing import Any

from tasks.benchmarks.demo.draw import (
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

RESEARCHERS = 170
GRANTS = 130
PAPERS = 620
TODAY = date(2024, 9, 30)

DEPARTMENTS: tuple[Row, ...] = (
    (1, "Physics", "Science", 1904),
    (2, "Chemistry", "Science", 1911),
    (3, "Biology", "Science", 1926),
    (4, "Computer Science", "Engineering", 1972),
    (5, "Mechanical Engineering", "Engineering", 1938),
    (6, "Psychology", "Social Science", 1957),
    (7, "Public Health", "Medicine", 1985),
    (8, "Linguistics", "Humanities", 1949),
)
"""(dept_id, name, faculty, founded)."""

LABS: tuple[Row, ...] = (
    (1, 1, "Quantum Optics Lab", "Faraday House", 420, "1998-10-01", None),
    (2, 1, "Soft Matter Group", "Faraday House", 260, "2006-03-15", None),
    (3, 1, "Plasma Lab", "Annex B", 510, "1989-09-01", "2021-08-31"),
    (4, 2, "Catalysis Lab", "Mendel Building", 380, "2001-02-12", None),
    (5, 2, "Polymer Lab", "Mendel Building", 295, "2010-09-20", None),
    (6, 2, "Analytical Chemistry Lab", "Annex B", 240, "1995-05-08", None),
    (7, 3, "Plant Genomics Lab", "Greenhouse Wing", 610, "2008-04-01", None),
    (8, 3, "Marine Ecology Lab", "Greenhouse Wing", 330, "2013-06-17", None),
    (9, 3, "Cell Imaging Lab", "Mendel Building", 285, "2016-01-11", None),
    (10, 4, "Machine Learning Lab", "Turing Hall", 350, "2012-10-01", None),
    (11, 4, "Databases Lab", "Turing Hall", 180, "2005-09-05", None),
    (12, 4, "Robotics Lab", "Workshop Hall", 540, "2015-02-02", None),
    (13, 4, "Networks Lab", "Turing Hall", 165, "2000-11-13", "2019-12-31"),
    (14, 5, "Fluid Dynamics Lab", "Workshop Hall", 720, "1992-09-14", None),
    (15, 5, "Materials Testing Lab", "Workshop Hall", 470, "1999-03-22", None),
    (16, 5, "Wind Energy Lab", "Annex B", 390, "2014-09-01", None),
    (17, 6, "Memory Lab", "Lovelace Court", 140, "2007-10-08", None),
    (18, 6, "Child Development Lab", "Lovelace Court", 205, "2011-05-30", None),
    (19, 7, "Epidemiology Unit", "Clinic East", 230, "1990-01-15", None),
    (20, 7, "Nutrition Lab", "Clinic East", 190, "2009-09-07", None),
    (21, 7, "Air Quality Unit", "Clinic East", 155, "2018-03-19", None),
    (22, 8, "Phonetics Lab", "Lovelace Court", 95, "2003-10-06", None),
    (23, 8, "Field Languages Lab", "Lovelace Court", 80, "2023-11-01", None),
)
"""(lab_id, dept_id, name, building, floor area, opened_on, closed_on); the last has no grant yet."""

LAB_WEIGHTS = (9, 6, 3, 7, 5, 4, 8, 5, 6, 12, 6, 9, 2, 6, 5, 7, 4, 4, 8, 4, 5, 2, 0)

FUNDERS: tuple[Row, ...] = (
    (1, "National Research Council", "public", "Ireland"),
    (2, "Horizon Fund", "public", "Belgium"),
    (3, "Ministry of Energy", "public", "Ireland"),
    (4, "Health Research Board", "public", "Ireland"),
    (5, "Brightwater Foundation", "charity", "Netherlands"),
    (6, "Elm Trust", "charity", "Ireland"),
    (7, "Lindqvist Foundation", "charity", "Sweden"),
    (8, "Ocean Futures", "charity", "Portugal"),
    (9, "Northwind Turbines", "industry", "Denmark"),
    (10, "Corvus Robotics", "industry", "Germany"),
    (11, "Halden Pharma", "industry", "Switzerland"),
    (12, "Meridian Polymers", "industry", "Germany"),
    (13, "Bluebox Data", "industry", "Ireland"),
    (14, "Alumni Fund", "charity", "Ireland"),
)
"""(funder_id, name, kind, country); the last has not granted anything yet."""

FUNDER_WEIGHTS = (24, 17, 9, 11, 7, 5, 6, 4, 5, 6, 5, 4, 6, 0)

JOURNALS: tuple[Row, ...] = (
    (1, "Letters in Applied Physics", "Orbis Press", 4.1, 0),
    (2, "Journal of Soft Matter", "Orbis Press", 3.6, 0),
    (3, "Catalysis Reports", "Halcyon", 7.9, 0),
    (4, "Open Chemistry Notes", "Commons Science", 2.4, 1),
    (5, "Polymer Advances", "Halcyon", 5.2, 0),
    (6, "Genome Studies", "Halcyon", 9.8, 0),
    (7, "Marine Life", "Tidal Books", 2.9, 1),
    (8, "Imaging Methods", "Orbis Press", 6.3, 1),
    (9, "Transactions on Learning Systems", "Circuit Society", 8.7, 0),
    (10, "Data Engineering Review", "Circuit Society", 4.4, 0),
    (11, "Open Robotics", "Commons Science", 3.8, 1),
    (12, "Flow and Turbulence", "Orbis Press", 3.3, 0),
    (13, "Materials in Use", "Halcyon", 4.9, 0),
    (14, "Wind and Sun", "Commons Science", 5.7, 1),
    (15, "Memory and Mind", "Tidal Books", 3.1, 0),
    (16, "Early Years Research", "Tidal Books", 2.2, 0),
    (17, "Population Health", "Halcyon", 10.6, 1),
    (18, "Nutrition Today", "Commons Science", 2.7, 1),
    (19, "Speech Sounds", "Tidal Books", 1.8, 0),
    (20, "Preprints of the Royal Quarter", "Commons Science", None, 1),
    (21, "Workshop Proceedings", "Circuit Society", None, 0),
)
"""(journal_id, name, publisher, impact, oa)."""

JOURNALS_BY_DEPARTMENT = {
    1: (1, 2, 8, 20),
    2: (3, 4, 5, 13),
    3: (6, 7, 8, 20),
    4: (9, 10, 11, 21),
    5: (12, 13, 14, 21),
    6: (15, 16, 17),
    7: (17, 18, 14, 20),
    8: (19, 16, 21),
}

TOPICS = {
    1: "photon pairs|colloidal gels|trapped ions|thin plasmas|optical cavities|foam drainage",
    2: "nickel catalysts|block copolymers|trace solvents|surface oxides|ring opening|ion exchange",
    3: "barley roots|kelp forests|cell division|pollen genomes|reef fish|leaf ageing",
    4: "query planners|sparse networks|robot grippers|stream joins|language models|swarm navigation",
    5: "turbine blades|pipe flow|steel fatigue|boundary layers|composite panels|gear wear",
    6: "working memory|early speech|attention drift|shared play|eyewitness recall|habit change",
    7: "school meals|urban air|vaccine uptake|sleep loss|salt intake|heat waves",
    8: "vowel length|tone shifts|minority dialects|sentence stress|loan words|verb agreement",
}
OPENINGS = (
    "A field study of {}", "On the limits of {}", "Measuring {} at scale", "{} under stress",
    "Towards a theory of {}", "Long-term observation of {}", "{}: a comparative review",
    "Simulating {} with few data", "What drives {}", "Ten years of {}", "Uncertainty in {}",
    "Fast methods for {}", "{} revisited", "Low-cost sensing of {}", "The hidden cost of {}",
    "A benchmark for {}", "Modelling {} from sparse samples", "New evidence on {}",
)  # fmt: skip
PROGRAMMES = ("Foundations of {}", "Open tools for {}", "{} in practice", "Next steps in {}", "Mapping {}")


def rows(random: Random) -> Iterator[tuple[str, list[Row]]]:
    """Yield every table's name and rows, parents first."""
    yield "department", list(DEPARTMENTS)
    yield "lab", list(LABS)
    researchers = list(_researchers(random))
    yield "researcher", researchers
    yield "membership", list(_memberships(random, researchers))
    yield "funder", list(FUNDERS)
    yield "grant", list(_grants(random))
    yield "journal", list(JOURNALS)
    papers, authorships = _papers(random, researchers)
    yield "paper", papers
    yield "authorship", authorships


def _researchers(random: Random) -> Iterator[Row]:
    departments = [row[0] for row in DEPARTMENTS]
    for number, (given, family) in enumerate(people(random, RESEARCHERS), 1):
        rank = pick_weighted(random, ("P", "A", "R", "D"), (16, 22, 28, 34))
        earliest = {"P": 1992, "A": 2003, "R": 2012, "D": 2019}[rank]
        hired = day(random, date(earliest, 1, 1), TODAY)
        orcid = None
        if chance(random, 0.74):
            orcid = "-".join(f"{below(random, 10_000):04d}" for _ in range(4))
        department = pick_weighted(random, departments, (22, 20, 24, 34, 22, 14, 20, 9))
        yield number, given, family, department, rank, hired.isoformat(), orcid


def _memberships(random: Random, researchers: list[Row]) -> Iterator[Row]:
    homes = {dept[0]: [lab for lab in LABS if lab[1] == dept[0]] for dept in DEPARTMENTS}
    led: set[int] = set()
    for researcher_id, _, _, dept_id, rank, hired_on, _ in researchers:
        count = pick_weighted(random, (0, 1, 2), (5, 72, 23))
        chosen = sample(random, homes[dept_id], count)
        if chance(random, 0.08):
            chosen.append(pick(random, [lab for lab in LABS if lab[1] != dept_id]))
        for lab in chosen:
            start = max(hired_on, lab[5])
            if lab[6] and start >= lab[6]:
                continue
            began = day(random, date.fromisoformat(start), date.fromisoformat(lab[6] or str(TODAY)))
            ended = lab[6]
            if not ended and began < date(2022, 1, 1) and chance(random, 0.25):
                ended = day(random, began + timedelta(days=200), TODAY).isoformat()
            role = {"P": "member", "A": "member", "R": "postdoc", "D": "student"}[rank]
            if rank in "PA" and lab[0] not in led and ended is None:
                led.add(lab[0])
                role = "head"
            yield lab[0], researcher_id, role, began.isoformat(), ended


def _grants(random: Random) -> Iterator[Row]:
    for number in range(1, GRANTS + 1):
        lab = pick_weighted(random, LABS, LAB_WEIGHTS)
        funder = pick_weighted(random, FUNDERS, FUNDER_WEIGHTS)
        last_start = date(2019, 1, 1) if lab[6] else date(2025, 2, 1)
        starts = day(random, max(date(2012, 1, 1), date.fromisoformat(lab[5])), last_start).replace(day=1)
        ends = starts.replace(year=starts.year + between(random, 1, 5)) - timedelta(days=1)
        amount = 18 + int(
            2400 * random.random() ** 2.6 * {"public": 1.0, "charity": 0.4, "industry": 0.6}[funder[2]]
        )
        status = "P" if starts > TODAY else "A" if ends > TODAY else "C"
        if status == "C" and chance(random, 0.1):
            status = "T"
        topic = pick(random, TOPICS[lab[1]].split("|"))
        title = pick(random, PROGRAMMES).format(topic)
        yield number, funder[0], lab[0], title[0].upper() + title[1:], amount, str(starts), str(ends), status


def _papers(random: Random, researchers: list[Row]) -> tuple[list[Row], list[Row]]:
    """Return the papers by date, and their authors: mostly of one department, some from another."""
    drafts = []
    titles = {
        dept_id: shuffled(random, [line.format(topic) for line in OPENINGS for topic in topics.split("|")])
        for dept_id, topics in TOPICS.items()
    }
    for _ in range(PAPERS):
        lead = pick_skewed(random, researchers, 1.5)
        dept_id = lead[3]
        if not titles[dept_id]:
            continue
        published = day(random, max(date(2014, 1, 1), date.fromisoformat(lead[5])), TODAY)
        title = titles[dept_id].pop()
        age = (TODAY - published).days / 365
        cites = int(age * 26 * random.random() ** 3)
        pages = between(random, 4, 32) if chance(random, 0.93) else None
        journal = pick_skewed(random, JOURNALS_BY_DEPARTMENT[dept_id], 1.3)
        near = [row for row in researchers if row[3] == dept_id and row is not lead]
        count = pick_weighted(random, (0, 1, 2, 3, 4), (14, 27, 29, 19, 11))
        authors = [lead, *sample(random, near, count)]
        if chance(random, 0.17):
            authors.append(pick(random, [row for row in researchers if row[3] != dept_id]))
        drafts.append((str(published), title[0].upper() + title[1:], journal, pages, cites, authors))
    drafts.sort(key=lambda draft: draft[:2])
    papers: list[Row] = []
    authorships: list[Row] = []
    for paper_id, (published_on, title, journal, pages, cites, authors) in enumerate(drafts, 1):
        papers.append((paper_id, journal, title, published_on, pages, cites))
        marked = 0 if chance(random, 0.8) else len(authors) - 1
        for position, author in enumerate(authors, 1):
            authorships.append((paper_id, author[0], position, int(position - 1 == marked)))
    return papers, authorships
