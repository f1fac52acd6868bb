-- A small football league: three seasons of eight clubs, who played, who scored, who whistled.
-- Dates are text (YYYY-MM-DD), wages are in thousands a year.

CREATE TABLE club (
    club_id INTEGER PRIMARY KEY,
    name    TEXT NOT NULL UNIQUE,
    town    TEXT NOT NULL,
    founded INTEGER,
    ground  TEXT NOT NULL,
    cap     INTEGER
);

CREATE TABLE season (
    season  TEXT PRIMARY KEY,
    "start" TEXT NOT NULL,
    "end"   TEXT NOT NULL,
    sponsor TEXT
);

CREATE TABLE referee (
    ref_id INTEGER PRIMARY KEY,
    name   TEXT NOT NULL,
    lvl    INTEGER NOT NULL,
    since  INTEGER
);

CREATE TABLE player (
    player_id INTEGER PRIMARY KEY,
    name      TEXT NOT NULL,
    dob       TEXT,
    pos       TEXT NOT NULL,
    foot      TEXT,
    h_cm      INTEGER
);

CREATE TABLE squad (
    season    TEXT NOT NULL REFERENCES season (season),
    club_id   INTEGER NOT NULL REFERENCES club (club_id),
    player_id INTEGER NOT NULL REFERENCES player (player_id),
    "Shirt No" INTEGER NOT NULL,
    wage_k    INTEGER,
    PRIMARY KEY (season, club_id, player_id)
);

CREATE TABLE "match" (
    match_id     INTEGER PRIMARY KEY,
    season       TEXT NOT NULL REFERENCES season (season),
    rnd          INTEGER NOT NULL,
    "date"       TEXT NOT NULL,
    home_id      INTEGER NOT NULL REFERENCES club (club_id),
    away_id      INTEGER NOT NULL REFERENCES club (club_id),
    "Home Goals" INTEGER,
    "Away Goals" INTEGER,
    att          INTEGER,
    ref_id       INTEGER REFERENCES referee (ref_id)
);

CREATE TABLE appearance (
    match_id  INTEGER NOT NULL REFERENCES "match" (match_id),
    player_id INTEGER NOT NULL REFERENCES player (player_id),
    season    TEXT NOT NULL,
    club_id   INTEGER NOT NULL,
    "on"      INTEGER NOT NULL,
    off       INTEGER NOT NULL,
    card      TEXT,
    PRIMARY KEY (match_id, player_id),
    FOREIGN KEY (season, club_id, player_id) REFERENCES squad (season, club_id, player_id)
);

CREATE TABLE goal (
    match_id  INTEGER NOT NULL,
    "index"   INTEGER NOT NULL,
    player_id INTEGER NOT NULL,
    "min"     INTEGER NOT NULL,
    kind      TEXT NOT NULL,
    PRIMARY KEY (match_id, "index"),
    FOREIGN KEY (match_id, player_id) REFERENCES appearance (match_id, player_id)
);
