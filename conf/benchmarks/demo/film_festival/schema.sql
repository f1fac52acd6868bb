-- A yearly film festival: its editions, films, people, screenings, awards and the jury's votes.

CREATE TABLE edition (
    year        INTEGER PRIMARY KEY,
    theme       TEXT NOT NULL,
    opens_on    TEXT NOT NULL,
    closes_on   TEXT NOT NULL,
    budget      INTEGER
);

CREATE TABLE person (
    person_id   INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    country     TEXT NOT NULL,
    born_on     TEXT
);

CREATE TABLE film (
    film_id     INTEGER PRIMARY KEY,
    title       TEXT NOT NULL UNIQUE,
    country     TEXT NOT NULL,
    language    TEXT,
    minutes     INTEGER NOT NULL,
    "production year" INTEGER NOT NULL,
    kind        TEXT NOT NULL
);

CREATE TABLE credit (
    film_id     INTEGER NOT NULL REFERENCES film (film_id),
    person_id   INTEGER NOT NULL REFERENCES person (person_id),
    job         TEXT NOT NULL,
    PRIMARY KEY (film_id, person_id, job)
);

CREATE TABLE venue (
    venue_id    INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    district    TEXT NOT NULL,
    "seat count" INTEGER NOT NULL,
    step_free   TEXT
);

CREATE TABLE screening (
    screening_id INTEGER PRIMARY KEY,
    film_id     INTEGER NOT NULL REFERENCES film (film_id),
    year        INTEGER NOT NULL REFERENCES edition (year),
    venue_id    INTEGER NOT NULL REFERENCES venue (venue_id),
    starts_at   TEXT NOT NULL,
    sold        INTEGER NOT NULL,
    "ticket price" REAL NOT NULL,
    talk        INTEGER NOT NULL
);

CREATE TABLE award (
    award_id    INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    section     TEXT NOT NULL,
    prize       INTEGER
);

CREATE TABLE nomination (
    year        INTEGER NOT NULL REFERENCES edition (year),
    award_id    INTEGER NOT NULL REFERENCES award (award_id),
    film_id     INTEGER NOT NULL REFERENCES film (film_id),
    won         INTEGER NOT NULL,
    PRIMARY KEY (year, award_id, film_id)
);

CREATE TABLE "jury vote" (
    film_id     INTEGER NOT NULL REFERENCES film (film_id),
    juror_id    INTEGER NOT NULL REFERENCES person (person_id),
    points      INTEGER,
    voted_on    TEXT NOT NULL,
    PRIMARY KEY (film_id, juror_id)
);
