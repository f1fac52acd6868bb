-- A city's public library: six branches, their holdings, and who borrowed what in 2023 and 2024.
-- Dates are text (YYYY-MM-DD), money is in whole cents.

CREATE TABLE branch (
    code     TEXT PRIMARY KEY,
    name     TEXT NOT NULL,
    district TEXT NOT NULL,
    opened   TEXT NOT NULL,
    sq_m     INTEGER
);

CREATE TABLE author (
    author_id INTEGER PRIMARY KEY,
    name      TEXT NOT NULL,
    country   TEXT,
    born      INTEGER,
    died      INTEGER
);

CREATE TABLE work (
    work_id INTEGER PRIMARY KEY,
    title   TEXT NOT NULL,
    "index" TEXT NOT NULL UNIQUE,
    cls     TEXT NOT NULL,
    lang    TEXT NOT NULL,
    yr      INTEGER,
    pp      INTEGER
);

CREATE TABLE work_author (
    work_id   INTEGER NOT NULL REFERENCES work (work_id),
    author_id INTEGER NOT NULL REFERENCES author (author_id),
    role      TEXT NOT NULL,
    PRIMARY KEY (work_id, author_id)
);

CREATE TABLE copy (
    work_id  INTEGER NOT NULL REFERENCES work (work_id),
    copy_no  INTEGER NOT NULL,
    branch   TEXT NOT NULL REFERENCES branch (code),
    cond     INTEGER NOT NULL,
    acquired TEXT NOT NULL,
    PRIMARY KEY (work_id, copy_no)
);

CREATE TABLE member (
    member_id INTEGER PRIMARY KEY,
    name      TEXT NOT NULL,
    born      TEXT,
    "group"   TEXT NOT NULL,
    joined    TEXT NOT NULL,
    home      TEXT REFERENCES branch (code),
    "E-Mail"  TEXT,
    blk       INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE loan (
    loan_id       INTEGER PRIMARY KEY,
    work_id       INTEGER NOT NULL,
    copy_no       INTEGER NOT NULL,
    member_id     INTEGER NOT NULL REFERENCES member (member_id),
    "Loan Date"   TEXT NOT NULL,
    "Due Date"    TEXT NOT NULL,
    "Return Date" TEXT,
    rn            INTEGER NOT NULL,
    fine_ct       INTEGER,
    FOREIGN KEY (work_id, copy_no) REFERENCES copy (work_id, copy_no)
);

CREATE TABLE "order" (
    order_id INTEGER PRIMARY KEY,
    work_id  INTEGER NOT NULL REFERENCES work (work_id),
    branch   TEXT NOT NULL REFERENCES branch (code),
    vendor   TEXT NOT NULL,
    qty      INTEGER NOT NULL,
    unit_ct  INTEGER NOT NULL,
    ordered  TEXT NOT NULL,
    arrived  TEXT,
    st       TEXT NOT NULL
);
