"""Rows of the demo database `coffee_shops`: about 21,000 orders with 55,000 lines over thirty months."""

from collections.abc import Iterator
from datetime import date, timedelta
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
    shuffled,
)
from tasks.benchmarks.demo.names import people

Row = tuple[Any, ...]

ORDERS = 21_000
CUSTOMERS = 1_400
FIRST_DAY, LAST_DAY = date(2022, 1, 1), date(2024, 6, 30)

CITIES: tuple[Row, ...] = (
    (1, "Marlow Bay", "North Shore", 412_300),
    (2, "Fernhill", "North Shore", 96_450),
    (3, "Oakmere", "Midlands", 233_800),
    (4, "Tallis", "Midlands", 151_020),
    (5, "Brindle Cross", "Midlands", 48_900),
    (6, "Port Averley", "South Coast", 318_700),
    (7, "Sandholm", "South Coast", 72_600),
    (8, "Quarry Vale", "Highlands", 39_150),
    (9, "Lindmoor", "Highlands", 21_480),
)
"""(city_id, name, province, population)."""

SHOPS: tuple[Row, ...] = (
    (1, "Harbour Beans", 1, "C", 46, "2016-03-12", None),
    (2, "Lighthouse Roasters", 1, "R", 72, "2017-09-01", None),
    (3, "Pier 9 Kiosk", 1, "K", None, "2019-05-18", "2023-10-31"),
    (4, "Tramline Coffee", 1, "C", 38, "2020-02-07", None),
    (5, "Fern & Filter", 2, "C", 30, "2018-04-21", None),
    (6, "Station Cup", 2, "K", None, "2021-06-14", None),
    (7, "Oak Street Roastery", 3, "R", 64, "2018-11-02", None),
    (8, "The Quiet Bean", 3, "C", 28, "2019-08-30", None),
    (9, "Market Hall Kiosk", 3, "K", None, "2021-03-05", None),
    (10, "Tallis Central", 4, "C", 52, "2019-01-19", None),
    (11, "College Grounds", 4, "C", 60, "2020-09-14", None),
    (12, "Crossroads Coffee", 5, "C", 24, "2021-05-22", "2024-01-15"),
    (13, "Averley Roast House", 6, "R", 80, "2017-06-10", None),
    (14, "Quayside", 6, "C", 42, "2018-07-28", None),
    (15, "Ferry Gate Kiosk", 6, "K", None, "2020-04-03", None),
    (16, "Blue Door", 6, "C", 34, "2021-10-09", None),
    (17, "Dune Coffee", 7, "C", 26, "2019-06-01", None),
    (18, "Vale & Co", 8, "C", 22, "2020-10-24", None),
    (19, "Summit Kiosk", 8, "K", None, "2021-12-11", None),
    (20, "Moorland Brew", 9, "C", 20, "2021-08-16", None),
    (21, "Old Mill Espresso", 4, "K", None, "2024-05-04", None),
)
"""(shop_id, name, city_id, kind, seats, opened_on, closed_on); the last has not sold anything yet."""

SHOP_WEIGHTS = (14, 12, 5, 8, 7, 5, 11, 6, 7, 9, 8, 3, 13, 8, 6, 5, 4, 3, 2, 2, 0)

PRODUCTS: tuple[Row, ...] = (
    (1, "Espresso", "espresso", 2.4, 0.46, 1, 5),
    (2, "Double Espresso", "espresso", 3.1, 0.81, 1, 9),
    (3, "Cortado", "espresso", 3.3, 0.88, 0, 70),
    (4, "Flat White", "espresso", 3.8, 1.05, 0, 120),
    (5, "Cappuccino", "espresso", 3.6, 0.98, 0, 130),
    (6, "Latte", "espresso", 3.9, 1.12, 0, 190),
    (7, "Oat Latte", "espresso", 4.4, 1.36, 1, 170),
    (8, "Mocha", "espresso", 4.6, 1.48, 0, 290),
    (9, "Caramel Macchiato", "espresso", 4.7, 1.52, 0, 250),
    (10, "Batch Brew", "filter", 2.9, 0.42, 1, 4),
    (11, "Pour Over", "filter", 4.2, 0.79, 1, 6),
    (12, "Cold Brew", "cold drink", 4.3, 0.74, 1, 8),
    (13, "Iced Latte", "cold drink", 4.2, 1.21, 0, 180),
    (14, "Lemonade", "cold drink", 3.5, 0.66, 1, 140),
    (15, "Iced Tea", "cold drink", 3.4, 0.51, 1, 90),
    (16, "Orange Juice", "cold drink", 4.1, 1.55, 1, 150),
    (17, "Sparkling Water", "cold drink", 2.2, 0.38, 1, 0),
    (18, "Breakfast Tea", "tea", 2.6, 0.24, 1, 2),
    (19, "Jasmine Tea", "tea", 2.8, 0.33, 1, 1),
    (20, "Mint Tea", "tea", 2.7, 0.28, 1, 3),
    (21, "Chai Latte", "tea", 4.0, 1.02, 0, 210),
    (22, "Matcha Latte", "tea", 4.8, 1.66, 0, 200),
    (23, "Butter Croissant", "bakery", 2.7, 0.86, 0, 270),
    (24, "Almond Croissant", "bakery", 3.4, 1.18, 0, 410),
    (25, "Cinnamon Roll", "bakery", 3.3, 0.97, 0, 390),
    (26, "Blueberry Muffin", "bakery", 3.2, 0.92, 0, 380),
    (27, "Banana Bread", "bakery", 3.0, 0.78, 1, 310),
    (28, "Carrot Cake", "bakery", 4.1, 1.26, 0, 430),
    (29, "Oat Cookie", "bakery", 2.3, 0.52, 1, 240),
    (30, "Brownie", "bakery", 3.1, 0.89, 0, 420),
    (31, "Cheese Toastie", "sandwich", 5.9, 2.05, 0, 480),
    (32, "Hummus Wrap", "sandwich", 6.2, 1.94, 1, 430),
    (33, "Egg Bagel", "sandwich", 6.4, 2.21, 0, 460),
    (34, "Tomato Focaccia", "sandwich", 5.6, 1.72, 1, 440),
    (35, "Salmon Bagel", "sandwich", 7.9, 3.36, 0, 490),
    (36, "House Blend 250 g", "beans", 9.5, 4.1, 1, None),
    (37, "Highland Single Origin 250 g", "beans", 13.9, 6.35, 1, None),
    (38, "Decaf Blend 250 g", "beans", 10.4, 4.72, 1, None),
    (39, "Espresso Blend 1 kg", "beans", 31.0, 14.9, 1, None),
    (40, "Travel Cup", "merchandise", 14.5, None, 1, None),
    (41, "Enamel Mug", "merchandise", 11.8, None, 1, None),
)
"""(product_id, name, category, list price, cost, vegan, kcal); prices and costs in the chain's currency."""

PRODUCT_WEIGHTS = (
    62, 34, 22, 70, 88, 96, 58, 21, 19, 47, 13, 27, 24, 9, 12, 14, 16, 18, 8, 11, 17,
    20, 74, 29, 37, 26, 23, 12, 31, 19, 15, 10, 13, 7, 9, 8, 4, 3, 1.6, 2.2, 1.4,
)  # fmt: skip

SUPPLIERS: tuple[Row, ...] = (
    (1, "Alta Verde Growers", "Colombia", 4.7),
    (2, "Kilima Estates", "Kenya", 4.5),
    (3, "Serra Azul Coffee", "Brazil", 4.1),
    (4, "Northfield Dairy", "Ireland", 4.3),
    (5, "Green Oat Mills", "Sweden", 4.6),
    (6, "Daybreak Bakery", "Ireland", 3.8),
    (7, "Crumb & Crust", "Ireland", 4.2),
    (8, "Hillside Tea Gardens", "India", 4.4),
    (9, "Uji Leaf", "Japan", 4.8),
    (10, "Fresh Basket", "Spain", 3.5),
    (11, "Clearspring Drinks", "Spain", None),
    (12, "Cup & Carry", "Portugal", 3.9),
    (13, "Riverside Deli", "Ireland", None),
    (14, "Volcano Roast Traders", "Guatemala", 4.0),
)
"""(supplier_id, name, country, rating); the last delivers nothing yet."""

SUPPLIERS_BY_CATEGORY = {
    "espresso": (1, 3, 4, 5),
    "filter": (1, 2, 3),
    "cold drink": (10, 11, 3),
    "tea": (8, 9, 4),
    "bakery": (6, 7, 13),
    "sandwich": (13, 10, 7),
    "beans": (1, 2, 3),
    "merchandise": (12,),
}

WAGES = {"manager": 24.0, "shift lead": 18.5, "barista": 15.2, "baker": 17.3}


def rows(random: Random) -> Iterator[tuple[str, list[Row]]]:
    """Yield every table's name and rows, parents first."""
    yield "city", list(CITIES)
    yield "shop", list(SHOPS)
    names = [f"{given} {family}" for given, family in people(random, CUSTOMERS + 200)]
    employees = list(_employees(random, names[CUSTOMERS:]))
    yield "employee", employees
    yield "product", list(PRODUCTS)
    yield "supplier", list(SUPPLIERS)
    yield "product_supplier", list(_deliveries(random))
    customers = list(_customers(random, names[:CUSTOMERS]))
    yield "customer", customers
    orders = list(_orders(random, employees, customers))
    yield "order", orders
    yield "order_line", list(_lines(random, orders))


def _employees(random: Random, names: list[str]) -> Iterator[Row]:
    number = 0
    for shop_id, _, _, kind, _, opened_on, closed_on in SHOPS:
        team = ["manager"] if kind != "K" else []
        team += ["shift lead"] * (2 if kind == "R" else 1)
        team += ["barista"] * between(random, 3, 6 if kind != "K" else 4)
        team += ["baker"] * (between(random, 1, 2) if kind == "R" else 0)
        head = number + 1
        for position, role in enumerate(team):
            number += 1
            opened = date.fromisoformat(opened_on)
            hired = opened if position == 0 else day(random, opened, date(2024, 5, 31))
            left = closed_on
            if position > 1 and hired < date(2022, 6, 1) and chance(random, 0.2):
                left = day(random, date(2023, 1, 1), date(2024, 6, 20)).isoformat()
            if closed_on and hired.isoformat() > closed_on:
                hired = opened + timedelta(days=30)
            years = (LAST_DAY - hired).days / 365
            wage = round(WAGES[role] + 0.35 * years + bell(random, 0, 0.6), 2)
            manager = None if position == 0 else head
            yield number, shop_id, names[number - 1], role, hired.isoformat(), left, wage, manager


def _deliveries(random: Random) -> Iterator[Row]:
    for product_id, _, category, *_ in PRODUCTS:
        choices = SUPPLIERS_BY_CATEGORY[category]
        for supplier_id in sorted(sample(random, choices, between(random, 1, min(3, len(choices))))):
            yield (
                product_id,
                supplier_id,
                between(random, 2, 9) + (12 if supplier_id in {1, 2, 3, 8, 9} else 0),
            )


def _customers(random: Random, names: list[str]) -> Iterator[Row]:
    cities = [row[0] for row in CITIES]
    population = [row[3] for row in CITIES]
    for number, name in enumerate(names, 1):
        joined = day(random, date(2019, 1, 1), date(2024, 6, 15))
        email = None
        if chance(random, 0.86):
            host = pick_weighted(random, ("postbox.example", "mailhub.example", "inbox.example"), (5, 3, 2))
            email = f"{name.lower().replace(' ', '.')}@{host}"
        born = None
        if chance(random, 0.78):
            born = day(random, date(1946, 1, 1), date(2006, 12, 31)).strftime("%d.%m.%Y")
        tier = pick_weighted(random, ("B", "S", "G", None), (44, 21, 9, 26))
        yield number, name, email, pick_weighted(random, cities, population), joined.isoformat(), born, tier


def _orders(random: Random, employees: list[Row], customers: list[Row]) -> Iterator[Row]:
    staff = {shop[0]: [row for row in employees if row[1] == shop[0]] for shop in SHOPS}
    keen = shuffled(random, customers)
    span = (LAST_DAY - FIRST_DAY).days + 1
    days = sorted(int(span * (1 - (1 - random.random()) ** 1.15)) for _ in range(ORDERS))
    for number, offset in enumerate(days, 1):
        placed = FIRST_DAY + timedelta(days=offset)
        while True:
            shop = pick_weighted(random, SHOPS, SHOP_WEIGHTS)
            if not shop[6] or placed.isoformat() < shop[6]:
                break
        server = pick(random, [row for row in staff[shop[0]] if _works(row, placed)] or staff[shop[0]][:1])
        customer = pick_skewed(random, keen, 1.7) if chance(random, 0.55) else None
        if customer and customer[4] > placed.isoformat():
            customer = None
        channels = (70, 22, 0) if shop[3] == "K" else (58, 27, 15)
        channel = pick_weighted(random, (1, 2, 3), channels)
        hour = pick_weighted(random, range(7, 20), (9, 16, 13, 10, 8, 9, 8, 6, 6, 6, 4, 3, 2))
        tip = round(0.25 * between(random, 1, 12), 2) if chance(random, 0.31) else None
        placed_at = f"{placed} {clock(random, hour, hour)}"
        yield number, shop[0], customer[0] if customer else None, server[0], placed_at, channel, tip


def _works(employee: Row, on: date) -> bool:
    return employee[4] <= on.isoformat() and (employee[5] is None or on.isoformat() < employee[5])


def _lines(random: Random, orders: list[Row]) -> Iterator[Row]:
    weights = list(PRODUCT_WEIGHTS)
    for order_id, _, customer_id, _, placed_at, channel, _ in orders:
        count = pick_weighted(random, (1, 2, 3, 4, 5, 6), (22, 31, 23, 13, 7, 4))
        chosen: list[Row] = []
        while len(chosen) < count:
            product = pick_weighted(random, PRODUCTS, weights)
            if product not in chosen:
                chosen.append(product)
        for line_no, product in enumerate(chosen, 1):
            price = product[3] if placed_at >= "2023-03-01" else round(product[3] * 0.95, 1)
            discount = None
            if customer_id is not None and chance(random, 0.16 if channel == 2 else 0.07):
                discount = pick_weighted(random, (5, 10, 15, 20, 50), (30, 40, 15, 13, 2))
            quantity = pick_weighted(random, (1, 2, 3, 4), (78, 16, 4, 2))
            yield order_id, line_no, product[0], quantity, price, discount
            if below(random, 4000) == 0:
                break
