-- A hospital's wards over 2023 and 2024: who lay in which bed, why, for how long, and who looked after them.
-- Moments are text (YYYY-MM-DD HH:MM).

CREATE TABLE ward (
    ward_id TEXT PRIMARY KEY,
    name    TEXT NOT NULL,
    spec    TEXT NOT NULL,
    floor   INTEGER NOT NULL,
    phone   TEXT
);

CREATE TABLE bed (
    ward_id TEXT NOT NULL REFERENCES ward (ward_id),
    bed_no  INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    "Last Serviced" TEXT,
    PRIMARY KEY (ward_id, bed_no)
);

CREATE TABLE diagnosis (
    code  TEXT PRIMARY KEY,
    label TEXT NOT NULL,
    chap  TEXT NOT NULL,
    chr   INTEGER NOT NULL
);

CREATE TABLE patient (
    pat_id INTEGER PRIMARY KEY,
    name   TEXT NOT NULL,
    sex    TEXT NOT NULL,
    dob    TEXT NOT NULL,
    bg     TEXT,
    ins    TEXT
);

CREATE TABLE staff (
    staff_id INTEGER PRIMARY KEY,
    name     TEXT NOT NULL,
    role     TEXT NOT NULL,
    grade    INTEGER NOT NULL,
    hired    TEXT NOT NULL,
    ward_id  TEXT REFERENCES ward (ward_id),
    boss     INTEGER REFERENCES staff (staff_id)
);

CREATE TABLE admission (
    adm_id  INTEGER PRIMARY KEY,
    pat_id  INTEGER NOT NULL REFERENCES patient (pat_id),
    ward_id TEXT NOT NULL,
    bed_no  INTEGER NOT NULL,
    adm_dt  TEXT NOT NULL,
    dis_dt  TEXT,
    LOS_H   INTEGER,
    sev     INTEGER,
    dx1     TEXT NOT NULL REFERENCES diagnosis (code),
    dx2     TEXT REFERENCES diagnosis (code),
    "from"  TEXT NOT NULL,
    "to"    TEXT,
    FOREIGN KEY (ward_id, bed_no) REFERENCES bed (ward_id, bed_no)
);

CREATE TABLE "Care Team" (
    adm_id   INTEGER NOT NULL REFERENCES admission (adm_id),
    staff_id INTEGER NOT NULL REFERENCES staff (staff_id),
    "Lead"   INTEGER NOT NULL,
    hrs      INTEGER,
    PRIMARY KEY (adm_id, staff_id)
);

CREATE TABLE vitals (
    adm_id     INTEGER NOT NULL REFERENCES admission (adm_id),
    "index"    INTEGER NOT NULL,
    "Taken At" TEXT NOT NULL,
    hr         INTEGER,
    sbp        INTEGER,
    t10        INTEGER,
    PRIMARY KEY (adm_id, "index")
);
