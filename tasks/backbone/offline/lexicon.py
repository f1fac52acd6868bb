"""What the offline model knows of English: closed word lists, no benchmark's vocabulary."""


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


NUMBER_WORDS = {
    "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9",
    "ten": "10", "eleven": "11", "twelve": "12",
}  # fmt: skip
"""Words that are read as numbers anywhere; "one" is mostly a pronoun and only read after a comparison."""

IRREGULAR = {
    "people": "person", "persons": "person", "children": "child", "aged": "age", "men": "man", "women": "woman",
    "mice": "mouse",
    "feet": "foot", "movies": "movie", "series": "series", "species": "species", "has": "has", "was": "was",
    "does": "do", "is": "is", "his": "his", "this": "this", "news": "news", "born": "birth", "won": "win",
    "taught": "teach", "paid": "pay", "wrote": "write", "written": "write", "made": "make", "held": "hold",
    "bought": "buy", "sold": "sell", "taken": "take", "took": "take", "gave": "give", "given": "give",
    "led": "lead", "built": "build", "spent": "spend", "died": "die", "lives": "live", "staff": "staff",
}  # fmt: skip

ABBREVIATIONS = {
    "fname": ("first", "name"), "lname": ("last", "name"), "mname": ("middle", "name"),
    "dob": ("birth", "date"),
    "dept": ("department",), "emp": ("employee",), "stu": ("student",), "crs": ("course",),
    "prof": ("professor",),
    "no": ("number",), "num": ("number",), "nbr": ("number",), "qty": ("quantity",), "amt": ("amount",),
    "acc": ("account",), "acct": ("account",), "cust": ("customer",), "addr": ("address",),
    "bal": ("balance",),
    "desc": ("description",), "loc": ("location",), "pos": ("position",), "pct": ("percent",),
    "avg": ("average",),
    "yr": ("year",), "sal": ("salary",), "mgr": ("manager",), "lang": ("language",), "apt": ("apartment",),
    "tel": ("telephone",), "lat": ("latitude",), "lng": ("longitude",), "temp": ("temperature",),
    "org": ("organization",), "proj": ("project",), "cat": ("category",), "dst": ("destination",),
    "src": ("source",), "dest": ("destination",), "firstname": ("first", "name"),
    "lastname": ("last", "name"),
    "forename": ("first", "name"), "surname": ("last", "name"), "fullname": ("full", "name"),
    "stuid": ("student", "id"), "ids": ("id",),
    "colour": ("color",), "cm": ("cm",), "kg": ("kg",), "sqft": ("square", "feet"), "min": ("minimum",),
    "max": ("maximum",), "ht": ("height",), "wt": ("weight",), "govt": ("government",),
    "dist": ("district",),
    "ref": (), "tbl": (), "tb": (),
}  # fmt: skip
"""Parts of identifiers and the words they stand for; () is dropped."""

COMMON_PARTS = (
    "name",
    "date",
    "year",
    "type",
    "code",
    "number",
    "title",
    "status",
    "location",
    "address",
    "id",
)
"""Words that identifiers glue to another without a separator, as in `clubname`."""

ALIKE = (
    "country nation nationality", "title name", "phone telephone", "sex gender", "cost price fee",
    "wage salary earn pay",
    "movie film", "location place venue", "airplane aircraft plane", "car vehicle", "kid child",
    "teacher instructor professor faculty", "employee staff worker", "pupil student",
    "make maker manufacturer produce",
    "average mean", "identifier id", "hometown home town", "zip postal", "quantity amount", "surname last",
    "forename first", "birth birthday", "family last", "email mail", "detail description", "kind type",
    "category type", "start begin open", "end finish close", "rating star score", "homepage website url",
    "university college school", "store shop", "buy purchase", "order purchase",
    "founded established found",
    "horsepower power", "duration length", "capital money", "doctor physician", "writer author",
    "language tongue",
    "color colour", "state province", "party affiliation", "lesson class", "picture image",
    "role position job",
    "occupation job profession", "abbreviation abbrev", "speciality specialty", "gain earn",
    "code abbreviation",
)  # fmt: skip

"""Lines of words that may stand for each other between a question and a schema."""

GLUE = frozenset({"of", "the", "a", "an", "'s", "their", "its", "his", "her", "all"})
"""Words that may stand between the words of one mention."""

STOP = GLUE | words_of(
    """
    is are was were be been do does did have has had and or in on at to for from by with what which who
    whom whose where when how many much that this these those there it they them we you i me my our your
    not no each every any some than as list show give find return tell please display also if then so
    between more less most least only one can could would will may about into out up down over under
    both either neither nor else but
    """
)
"""Words that are no mention by themselves."""

SUPERLATIVES: dict[str, tuple[bool, tuple[str, ...]]] = {
    "highest": (True, ("height", "elevation", "score", "price", "salary")),
    "largest": (True, ("size", "area", "population", "capacity", "amount", "total", "number")),
    "biggest": (True, ("size", "area", "population", "capacity", "amount", "number")),
    "greatest": (True, ()), "maximum": (True, ()), "max": (True, ()), "maximal": (True, ()),
    "lowest": (False, ("height", "elevation", "score", "price", "salary")),
    "smallest": (False, ("size", "area", "population", "capacity", "amount", "number")),
    "minimum": (False, ()), "min": (False, ()), "minimal": (False, ()),
    "fewest": (False, ()), "least": (False, ()), "most": (True, ()),
    "oldest": (True, ("age", "-birth", "-founded", "-open", "-built", "-year", "-date")),
    "youngest": (False, ("age", "-birth", "-founded", "-open", "-year", "-date")),
    "longest": (True, ("length", "duration", "distance", "time", "hours", "year")),
    "shortest": (False, ("length", "duration", "height", "distance", "time")),
    "tallest": (True, ("height",)), "heaviest": (True, ("weight",)), "lightest": (False, ("weight",)),
    "cheapest": (False, ("price", "cost", "fee", "rate")), "costliest": (True, ("price", "cost")),
    "priciest": (True, ("price", "cost")), "expensive": (True, ("price", "cost", "fee", "rate")),
    "fastest": (True, ("speed", "-time", "-lap", "horsepower")),
    "slowest": (False, ("speed", "-time", "-lap")),
    "latest": (True, ("date", "year", "time")), "newest": (True, ("date", "year", "age")),
    "recent": (True, ("date", "year", "time", "day")), "recently": (True, ("date", "year", "time")),
    "earliest": (False, ("date", "year", "time")),
    "best": (True, ("rating", "score", "-rank", "point", "grade")),
    "worst": (False, ("rating", "score", "-rank", "point", "grade")),
    "richest": (True, ("money", "income", "balance")),
    "strongest": (True, ("strength", "power")), "hottest": (True, ("temperature",)),
    "coldest": (False, ("temperature",)), "deepest": (True, ("depth",)),
    "wealthiest": (True, ("money", "income")),
}  # fmt: skip
"""Superlative -> whether it asks for the greatest, and the columns it speaks of when none is said.

A hint that begins with "-" turns the direction round: the oldest has the smallest year of birth.
"""

COMPARATIVES: dict[str, tuple[str, tuple[str, ...]]] = {
    "older": (">", ("age", "-birth", "-founded")), "younger": ("<", ("age", "-birth")),
    "longer": (">", ("length", "duration", "distance", "time")),
    "shorter": ("<", ("length", "duration", "height", "distance")), "taller": (">", ("height",)),
    "heavier": (">", ("weight",)), "lighter": ("<", ("weight",)),
    "cheaper": ("<", ("price", "cost", "fee")),
    "faster": (">", ("speed",)), "slower": ("<", ("speed",)), "after": (">", ("year", "date", "time")),
    "before": ("<", ("year", "date", "time")), "later": (">", ("year", "date", "time")),
    "earlier": ("<", ("year", "date", "time")), "since": (">=", ("year", "date", "time")),
    "expensive": (">", ("price", "cost", "fee")),
    "larger": (">", ("size", "area", "population", "capacity")),
    "smaller": ("<", ("size", "area", "population", "capacity")),
    "bigger": (">", ("size", "area", "population", "capacity")), "older than": (">", ("age",)),
}  # fmt: skip
"""Comparative -> operator and the columns it speaks of when none is said."""

AGGREGATES = {
    "average": "AVG", "mean": "AVG", "avg": "AVG", "averaged": "AVG", "maximum": "MAX", "max": "MAX",
    "maximal": "MAX",
    "highest": "MAX", "largest": "MAX", "greatest": "MAX", "biggest": "MAX", "latest": "MAX",
    "oldest": "MAX",
    "longest": "MAX", "minimum": "MIN", "min": "MIN", "minimal": "MIN", "lowest": "MIN", "smallest": "MIN",
    "earliest": "MIN", "youngest": "MIN", "shortest": "MIN", "least": "MIN", "total": "SUM", "sum": "SUM",
    "combined": "SUM", "overall": "SUM",
}  # fmt: skip
"""Words that ask for an aggregate of the column that follows."""

UNITS = frozenset(
    {
        "million",
        "billion",
        "thousand",
        "usd",
        "dollar",
        "dollars",
        "feet",
        "ft",
        "km",
        "kg",
        "cm",
        "mm",
        "lb",
        "lbs",
    }
    | {
        "mib",
        "mb",
        "gb",
        "mph",
        "kmh",
        "percent",
        "yn",
        "inches",
        "miles",
        "minutes",
        "seconds",
        "ms",
        "m",
        "ct",
        "cents",
        "pct",
        "eur",
    }
)
"""Last words of columns that questions leave out."""

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
