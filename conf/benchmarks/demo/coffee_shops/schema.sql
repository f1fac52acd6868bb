-- A chain of coffee shops: where it sells what to whom, who works there, and who supplies it.

CREATE TABLE city (
    city_id      INTEGER PRIMARY KEY,
    name         TEXT NOT NULL,
    province     TEXT NOT NULL,
    population   INTEGER NOT NULL
);

CREATE TABLE shop (
    shop_id      INTEGER PRIMARY KEY,
    name         TEXT NOT NULL UNIQUE,
    city_id      INTEGER NOT NULL REFERENCES city (city_id),
    kind         TEXT NOT NULL,
    seats        INTEGER,
    opened_on    TEXT NOT NULL,
    closed_on    TEXT
);

CREATE TABLE employee (
    employee_id  INTEGER PRIMARY KEY,
    shop_id      INTEGER NOT NULL REFERENCES shop (shop_id),
    full_name    TEXT NOT NULL,
    role         TEXT NOT NULL,
    hired_on     TEXT NOT NULL,
    left_on      TEXT,
    "hourly wage" REAL NOT NULL,
    manager_id   INTEGER REFERENCES employee (employee_id)
);

CREATE TABLE product (
    product_id   INTEGER PRIMARY KEY,
    name         TEXT NOT NULL UNIQUE,
    category     TEXT NOT NULL,
    "list price" REAL NOT NULL,
    cost         REAL,
    vegan        INTEGER NOT NULL,
    kcal         INTEGER
);

CREATE TABLE supplier (
    supplier_id  INTEGER PRIMARY KEY,
    name         TEXT NOT NULL UNIQUE,
    country      TEXT NOT NULL,
    rating       REAL
);

CREATE TABLE product_supplier (
    product_id   INTEGER NOT NULL REFERENCES product (product_id),
    supplier_id  INTEGER NOT NULL REFERENCES supplier (supplier_id),
    "lead days"  INTEGER NOT NULL,
    PRIMARY KEY (product_id, supplier_id)
);

CREATE TABLE customer (
    customer_id  INTEGER PRIMARY KEY,
    full_name    TEXT NOT NULL,
    email        TEXT,
    city_id      INTEGER NOT NULL REFERENCES city (city_id),
    joined_on    TEXT NOT NULL,
    born         TEXT,
    tier         TEXT
);

CREATE TABLE "order" (
    order_id     INTEGER PRIMARY KEY,
    shop_id      INTEGER NOT NULL REFERENCES shop (shop_id),
    customer_id  INTEGER REFERENCES customer (customer_id),
    employee_id  INTEGER NOT NULL REFERENCES employee (employee_id),
    placed_at    TEXT NOT NULL,
    ch           INTEGER NOT NULL,
    tip          REAL
);

CREATE TABLE order_line (
    order_id     INTEGER NOT NULL REFERENCES "order" (order_id),
    line_no      INTEGER NOT NULL,
    product_id   INTEGER NOT NULL REFERENCES product (product_id),
    quantity     INTEGER NOT NULL,
    unit_price   REAL NOT NULL,
    disc         INTEGER,
    PRIMARY KEY (order_id, line_no)
);
