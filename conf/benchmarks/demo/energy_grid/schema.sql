-- A power distributor: its substations, meters, monthly readings, outages and repair crews.

CREATE TABLE region (
    region_id   INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    operator    TEXT NOT NULL,
    area_km2    INTEGER NOT NULL
);

CREATE TABLE substation (
    sub_id      INTEGER PRIMARY KEY,
    region_id   INTEGER NOT NULL REFERENCES region (region_id),
    name        TEXT NOT NULL UNIQUE,
    A3          INTEGER NOT NULL,
    A7          TEXT NOT NULL,
    A11         REAL NOT NULL,
    A12         TEXT
);

CREATE TABLE tariff (
    tariff_id   INTEGER PRIMARY KEY,
    name        TEXT NOT NULL,
    c1          REAL NOT NULL,
    c2          REAL,
    fee         REAL NOT NULL,
    valid_from  TEXT NOT NULL
);

CREATE TABLE "group" (
    group_id    INTEGER PRIMARY KEY,
    label       TEXT NOT NULL UNIQUE,
    sector      TEXT NOT NULL,
    tariff_id   INTEGER NOT NULL REFERENCES tariff (tariff_id)
);

CREATE TABLE meter (
    meter_id    INTEGER PRIMARY KEY,
    serial      TEXT NOT NULL UNIQUE,
    sub_id      INTEGER NOT NULL REFERENCES substation (sub_id),
    group_id    INTEGER NOT NULL REFERENCES "group" (group_id),
    installed_on TEXT NOT NULL,
    removed_on  TEXT,
    phases      INTEGER NOT NULL,
    pv          INTEGER NOT NULL
);

CREATE TABLE reading (
    meter_id    INTEGER NOT NULL REFERENCES meter (meter_id),
    month       TEXT NOT NULL,
    kWh1        REAL NOT NULL,
    kWh2        REAL NOT NULL,
    kWh3        REAL,
    flag        TEXT NOT NULL,
    PRIMARY KEY (meter_id, month)
);

CREATE TABLE outage (
    outage_id   INTEGER PRIMARY KEY,
    sub_id      INTEGER NOT NULL REFERENCES substation (sub_id),
    began_at    TEXT NOT NULL,
    ended_at    TEXT,
    cause       TEXT,
    "customers off" INTEGER NOT NULL
);

CREATE TABLE crew (
    crew_id     INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    region_id   INTEGER NOT NULL REFERENCES region (region_id),
    "team size" INTEGER NOT NULL,
    "check"     TEXT
);

CREATE TABLE outage_crew (
    outage_id   INTEGER NOT NULL REFERENCES outage (outage_id),
    crew_id     INTEGER NOT NULL REFERENCES crew (crew_id),
    arrived_at  TEXT NOT NULL,
    hours       REAL,
    PRIMARY KEY (outage_id, crew_id)
);
