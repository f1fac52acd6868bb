-- A university's research: departments, labs and their members, grants, papers and their authors.

CREATE TABLE department (
    dept_id     INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    faculty     TEXT NOT NULL,
    founded     INTEGER NOT NULL
);

CREATE TABLE lab (
    lab_id      INTEGER PRIMARY KEY,
    dept_id     INTEGER NOT NULL REFERENCES department (dept_id),
    name        TEXT NOT NULL UNIQUE,
    building    TEXT NOT NULL,
    "floor area" INTEGER NOT NULL,
    opened_on   TEXT NOT NULL,
    closed_on   TEXT
);

CREATE TABLE researcher (
    researcher_id INTEGER PRIMARY KEY,
    given_name  TEXT NOT NULL,
    family_name TEXT NOT NULL,
    dept_id     INTEGER NOT NULL REFERENCES department (dept_id),
    rk          TEXT NOT NULL,
    hired_on    TEXT NOT NULL,
    orcid       TEXT
);

CREATE TABLE membership (
    lab_id      INTEGER NOT NULL REFERENCES lab (lab_id),
    researcher_id INTEGER NOT NULL REFERENCES researcher (researcher_id),
    role        TEXT NOT NULL,
    "from"      TEXT NOT NULL,
    "to"        TEXT,
    PRIMARY KEY (lab_id, researcher_id)
);

CREATE TABLE funder (
    funder_id   INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    kind        TEXT NOT NULL,
    country     TEXT NOT NULL
);

CREATE TABLE "grant" (
    grant_id    INTEGER PRIMARY KEY,
    funder_id   INTEGER NOT NULL REFERENCES funder (funder_id),
    lab_id      INTEGER NOT NULL REFERENCES lab (lab_id),
    title       TEXT NOT NULL,
    amt         INTEGER NOT NULL,
    starts_on   TEXT NOT NULL,
    ends_on     TEXT NOT NULL,
    st          TEXT NOT NULL
);

CREATE TABLE journal (
    journal_id  INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    publisher   TEXT NOT NULL,
    impact      REAL,
    oa          INTEGER NOT NULL
);

CREATE TABLE paper (
    paper_id    INTEGER PRIMARY KEY,
    journal_id  INTEGER NOT NULL REFERENCES journal (journal_id),
    title       TEXT NOT NULL UNIQUE,
    published_on TEXT NOT NULL,
    pages       INTEGER,
    cites       INTEGER NOT NULL
);

CREATE TABLE authorship (
    paper_id    INTEGER NOT NULL REFERENCES paper (paper_id),
    researcher_id INTEGER NOT NULL REFERENCES researcher (researcher_id),
    "position"  INTEGER NOT NULL,
    corr        INTEGER NOT NULL,
    PRIMARY KEY (paper_id, researcher_id)
);
