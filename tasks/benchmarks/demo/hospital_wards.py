"""Rows of the demo database `hospital_wards`: wards, beds, patients, admissions, care teams, vital signs."""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from random import Random
from typing import Any

from tasks.benchmarks.demo.draw import below, chance, day, pick, pick_skewed
from tasks.benchmarks.demo.names import people

Row = tuple[Any, ...]

ADMISSIONS = 760
END = datetime(2024, 12, 31, 23, 59)  # noqa: DTZ001 - the database's own wall-clock time, which names no zone

WARDS: tuple[Row, ...] = (
    ("W1A", "Alder", "cardiology", 1, "4101"),
    ("W1B", "Birch", "surgery", 1, "4102"),
    ("W2A", "Cedar", "surgery", 2, "4201"),
    ("W2B", "Elm", "general medicine", 2, "4202"),
    ("W3A", "Hazel", "general medicine", 3, "4301"),
    ("W3B", "Juniper", "paediatrics", 3, None),
    ("W4A", "Maple", "intensive care", 4, "4401"),
    ("W4B", "Rowan", "geriatrics", 4, "4402"),
)
"""(ward_id, name, spec, floor, phone)."""

BEDS = {"W1A": 13, "W1B": 16, "W2A": 11, "W2B": 21, "W3A": 18, "W3B": 9, "W4A": 7, "W4B": 14}

DIAGNOSES: tuple[Row, ...] = (
    ("A09", "gastroenteritis", "infection", 0),
    ("A41", "sepsis", "infection", 0),
    ("B34", "viral infection", "infection", 0),
    ("E11", "type 2 diabetes", "metabolic", 1),
    ("E86", "dehydration", "metabolic", 0),
    ("E78", "high cholesterol", "metabolic", 1),
    ("I10", "hypertension", "circulatory", 1),
    ("I21", "heart attack", "circulatory", 0),
    ("I48", "atrial fibrillation", "circulatory", 1),
    ("I50", "heart failure", "circulatory", 1),
    ("I63", "stroke", "circulatory", 0),
    ("J18", "pneumonia", "respiratory", 0),
    ("J44", "chronic obstructive lung disease", "respiratory", 1),
    ("J45", "asthma", "respiratory", 1),
    ("J20", "bronchitis", "respiratory", 0),
    ("K35", "appendicitis", "digestive", 0),
    ("K40", "inguinal hernia", "digestive", 0),
    ("K80", "gallstones", "digestive", 0),
    ("K50", "Crohn's disease", "digestive", 1),
    ("M16", "hip arthrosis", "musculoskeletal", 1),
    ("M54", "back pain", "musculoskeletal", 0),
    ("S52", "forearm fracture", "injury", 0),
    ("S72", "femur fracture", "injury", 0),
    ("S06", "concussion", "injury", 0),
)
"""(code, label, chap, chr)."""

BY_SPECIALTY = {
    "cardiology": ("I21", "I48", "I48", "I50", "I50", "I50", "I10"),
    "surgery": ("K35", "K35", "K35", "K40", "K40", "K80", "K80", "M16", "S52", "S72"),
    "general medicine": ("J18", "J18", "J18", "A09", "A09", "E11", "E86", "J44", "J20", "M54", "B34", "K50"),
    "paediatrics": ("J45", "J45", "J45", "A09", "A09", "B34", "S06", "S52", "K35"),
    "intensive care": ("A41", "A41", "I21", "I21", "I63", "J18"),
    "geriatrics": ("S72", "S72", "I50", "E86", "I63", "J18", "J44"),
}
SECOND = ("I10",) * 5 + ("E11",) * 4 + ("E78",) * 3 + ("J44", "I48", "E86", "I50")
WARD_SHARE = (
    ("W2B",) * 8 + ("W3A",) * 7 + ("W1B",) * 6 + ("W1A",) * 5
    + ("W2A",) * 4 + ("W3B",) * 4 + ("W4B",) * 3 + ("W4A",) * 2
)  # fmt: skip
MEDIAN_HOURS = {
    "cardiology": 110,
    "surgery": 84,
    "general medicine": 96,
    "paediatrics": 46,
    "intensive care": 150,
    "geriatrics": 230,
}
BORN_BETWEEN = ((1930, 1949), (1935, 1959), (1950, 1969), (1960, 1985), (1980, 2005), (2008, 2021))
ROLES = ("RN",) * 9 + ("HCA",) * 5 + ("MD",) * 4 + ("PT",) * 2
BLOOD = ("O+",) * 8 + ("A+",) * 7 + ("B+",) * 2 + ("AB+", "O-", "A-") + (None,) * 3
INSURERS = ("Public Fund",) * 9 + ("Helix Mutual",) * 3 + ("Northlight",) * 2 + (None,)


def rows(rng: Random) -> Iterator[tuple[str, list[Row]]]:
    """Yield (table, rows) so that every parent comes before its children."""
    beds = _beds(rng)
    patients = _patients(rng)
    staff = _staff(rng)
    admissions = _admissions(rng, beds, patients)
    yield "ward", list(WARDS)
    yield "bed", beds
    yield "diagnosis", list(DIAGNOSES)
    yield "patient", patients
    yield "staff", staff
    yield "admission", admissions
    yield "Care Team", _care_teams(rng, admissions, staff)
    yield "vitals", _vitals(rng, admissions)


def _text(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="minutes")


def _beds(rng: Random) -> list[Row]:
    rows: list[Row] = []
    for ward_id, _, spec, *_ in WARDS:
        for bed_no in range(1, BEDS[ward_id] + 1):
            kinds = "MMMI" if spec == "intensive care" else "SSSM" if spec == "cardiology" else "SSSSSSSI"
            serviced = day(rng, date(2023, 7, 3), date(2024, 12, 20)) if chance(rng, 0.88) else None
            rows.append((ward_id, bed_no, pick(rng, kinds), serviced and serviced.isoformat()))
    return rows


def _patients(rng: Random) -> list[Row]:
    rows: list[Row] = []
    for number, (given, family) in enumerate(people(rng, 420), start=20001):
        first, last = pick(rng, BORN_BETWEEN)
        born = day(rng, date(first, 1, 1), date(last, 12, 31))
        name = f"{given} {family}"
        rows.append((number, name, pick(rng, "FM"), born.isoformat(), pick(rng, BLOOD), pick(rng, INSURERS)))
    return rows


def _staff(rng: Random) -> list[Row]:
    """Every ward has one head (grade 8), who is the boss of the others there; floats have no ward."""
    rows: list[Row] = []
    heads: dict[str, int] = {}
    for number, (given, family) in enumerate(people(rng, 118), start=301):
        name = f"{given} {family}"
        hired = day(rng, date(1996, 2, 1), date(2024, 6, 3)).isoformat()
        if len(heads) < len(WARDS):
            ward_id = WARDS[len(heads)][0]
            heads[ward_id] = number
            rows.append((number, name, pick(rng, ("RN", "RN", "MD")), 8, hired, ward_id, None))
            continue
        role = pick(rng, ROLES)
        home = pick(rng, WARD_SHARE) if chance(rng, 0.9) else None
        grade = {"HCA": 2, "RN": 4, "PT": 4, "MD": 5}[role] + below(rng, 3)
        rows.append((number, name, role, grade, hired, home, heads[home] if home else None))
    return rows


def _admissions(rng: Random, beds: list[Row], patients: list[Row]) -> list[Row]:
    """Draw admissions in time; no bed holds two patients at once and nobody lies in two beds."""
    start = datetime(2023, 1, 1)  # noqa: DTZ001 - as above
    moments = sorted(start + timedelta(minutes=below(rng, 730 * 24 * 60)) for _ in range(ADMISSIONS))
    specialty = {ward_id: spec for ward_id, _, spec, *_ in WARDS}
    children = [p for p in patients if p[3] >= "2008"]
    elderly = [p for p in patients if p[3] < "1950"]
    grown = [p for p in patients if p[3] < "2006"]
    busy: dict[tuple[str, int] | int, datetime] = {}
    rows: list[Row] = []
    for adm_id, moment in enumerate(moments, start=70001):
        while True:
            ward_id = pick(rng, WARD_SHARE)
            spec = specialty[ward_id]
            pool = {"paediatrics": children, "geriatrics": elderly}.get(spec, grown)
            patient_id = pick_skewed(rng, pool, 1.25)[0]
            bed = pick(rng, [b for b in beds if b[0] == ward_id])
            key = (bed[0], bed[1])
            if busy.get(key, moment) <= moment and busy.get(patient_id, moment) <= moment:
                break
        severity = pick(rng, (3, 3, 4, 4, 4) if spec == "intensive care" else (1, 1, 2, 2, 2, 2, 3, 3, 4))
        spread = 0.25 + 1.5 * rng.random() + 2.5 * rng.random() ** 6
        hours = int(MEDIAN_HOURS[spec] * spread * (0.7 + 0.15 * severity)) + 5
        leaving = moment + timedelta(hours=hours, minutes=below(rng, 60))
        busy[key] = busy[patient_id] = leaving
        known = chance(rng, 0.96)
        first = pick(rng, BY_SPECIALTY[spec])
        second = pick(rng, SECOND) if spec != "paediatrics" and chance(rng, 0.45) else None
        died = chance(rng, 0.16 if severity == 4 else 0.01)
        home = "HHHHHHHHHC" if spec != "geriatrics" else "HHHCCC"
        rows.append(
            (
                adm_id,
                patient_id,
                *key,
                _text(moment),
                _text(leaving) if leaving <= END else None,
                hours if leaving <= END else None,
                severity if known else None,
                first,
                None if second == first else second,
                pick(rng, "EEEEERRRT"),
                None if leaving > END else "D" if died else pick(rng, home + "T"),
            )
        )
        if died:
            busy[patient_id] = datetime.max  # noqa: DTZ901 - never admitted again
    return rows


def _care_teams(rng: Random, admissions: list[Row], staff: list[Row]) -> list[Row]:
    """Two to five people each, mostly of the ward, exactly one of them the lead."""
    rows: list[Row] = []
    for adm_id, _, ward_id, *_ in admissions:
        local = [s[0] for s in staff if s[5] == ward_id]
        floating = [s[0] for s in staff if s[5] is None]
        team: list[int] = []
        wanted = pick(rng, (2, 2, 3, 3, 3, 4, 5))
        while len(team) < wanted:
            pool = local if chance(rng, 0.88) else floating
            member = pick_skewed(rng, pool, 1.6)
            if member not in team:
                team.append(member)
        for position, staff_id in enumerate(team):
            hours = 1 + int(30 * rng.random() ** 2) if chance(rng, 0.94) else None
            rows.append((adm_id, staff_id, int(position == 0), hours))
    return rows


def _vitals(rng: Random, admissions: list[Row]) -> list[Row]:
    rows: list[Row] = []
    for adm_id, _, _, _, admitted, _, hours, severity, *_ in admissions:
        start = datetime.fromisoformat(admitted)
        strain = severity or 2
        readings = pick(rng, (2, 3, 3, 4, 5))
        if hours is not None:
            readings = min(readings, 1 + hours // 12)
        for number in range(1, readings + 1):
            taken = start + timedelta(hours=12 * (number - 1), minutes=5 + below(rng, 50))
            pulse = 62 + below(rng, 28) + below(rng, 1 + 11 * strain)
            pressure = 104 + below(rng, 46) + below(rng, 9) * (3 - strain)
            warmth = 361 + below(rng, 14) + int(rng.random() ** 3 * 9 * strain)
            rows.append(
                (
                    adm_id,
                    number,
                    _text(taken),
                    pulse if chance(rng, 0.97) else None,
                    pressure if chance(rng, 0.93) else None,
                    warmth if chance(rng, 0.9) else None,
                )
            )
    return rows
