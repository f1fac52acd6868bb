"""Closed lists of English words; no benchmark's vocabulary."""


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


def _pairs(text: str) -> dict[str, str]:
    """Return a dictionary from "key=value" words."""
    return dict(pair.split("=") for pair in text.split())


NUMBER_WORDS = _pairs("two=2 three=3 four=4 five=5 six=6 seven=7 eight=8 nine=9 ten=10 eleven=11 twelve=12")
"""Words that are read as numbers anywhere; "one" is mostly a pronoun and only read after a comparison."""

IRREGULAR = _pairs(
    """
    people=person persons=person children=child aged=age men=man women=woman feet=foot movies=movie born=birth won=win
    taught=teach paid=pay wrote=write written=write made=make held=hold bought=buy sold=sell taken=take took=take
    gave=give given=give led=lead built=build spent=spend died=die
    """
)
"""Irregular forms and their base."""

ABBREVIATIONS = {
    short: tuple(long.split("_"))
    for short, long in _pairs(
        """
        fname=first_name lname=last_name dob=birth_date dept=department emp=employee stu=student crs=course
        prof=professor no=number num=number nbr=number qty=quantity amt=amount acc=account acct=account cust=customer
        addr=address bal=balance desc=description loc=location pos=position pct=percent avg=average yr=year sal=salary
        lang=language apt=apartment tel=telephone lat=latitude lng=longitude temp=temperature org=organization
        proj=project cat=category dst=destination src=source dest=destination firstname=first_name lastname=last_name
        forename=first_name surname=last_name fullname=full_name stuid=student_id ids=id colour=color min=minimum
        max=maximum ht=height wt=weight govt=government dist=district
        """
    ).items()
} | dict.fromkeys(("ref", "tbl", "tb"), ())
"""Parts of identifiers and the words they stand for; () is dropped."""

COMMON_PARTS = "name date year type code number title status location address id".split()  # noqa: SIM905
"""Words that identifiers glue to another without a separator, as in `clubname`."""

GLUE = words_of("of the a an 's their its his her all")
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

_SIZE = "size area population capacity amount number"
SUPERLATIVES: dict[str, tuple[bool, tuple[str, ...]]] = {
    word: (descending, tuple(hints.split()))
    for words, descending, hints in (
        ("highest", True, "height elevation score price salary"),
        ("largest biggest", True, _SIZE),
        ("greatest maximum max maximal most", True, ""),
        ("lowest", False, "height elevation score price salary"),
        ("smallest", False, _SIZE),
        ("minimum min minimal fewest least", False, ""),
        ("oldest", True, "age -birth -founded -open -built -year -date"),
        ("youngest", False, "age -birth -founded -open -year -date"),
        ("longest", True, "length duration distance time hours year"),
        ("shortest", False, "length duration height distance time"),
        ("tallest", True, "height"),
        ("heaviest", True, "weight"),
        ("lightest", False, "weight"),
        ("cheapest", False, "price cost fee rate"),
        ("expensive", True, "price cost fee rate"),
        ("fastest", True, "speed -time -lap horsepower"),
        ("slowest", False, "speed -time -lap"),
        ("latest newest recent recently", True, "date year time day age"),
        ("earliest", False, "date year time"),
        ("best", True, "rating score -rank point grade"),
        ("worst", False, "rating score -rank point grade"),
    )
    for word in words.split()
}
"""Superlative -> whether it asks for the greatest, and the columns it speaks of when none is said.

A hint that begins with "-" turns the direction round: the oldest has the smallest year of birth.
"""

AGGREGATES = _pairs(
    """
    average=AVG mean=AVG avg=AVG averaged=AVG maximum=MAX max=MAX maximal=MAX highest=MAX largest=MAX greatest=MAX
    biggest=MAX latest=MAX oldest=MAX longest=MAX minimum=MIN min=MIN minimal=MIN lowest=MIN smallest=MIN
    earliest=MIN youngest=MIN shortest=MIN least=MIN total=SUM sum=SUM combined=SUM overall=SUM
    """
)
"""Words that ask for an aggregate of the column that follows."""

UNITS = words_of(
    "million billion thousand usd dollar dollars feet ft km kg cm mm lb lbs mib mb gb mph kmh percent yn inches miles"
    " minutes seconds ms m ct cents pct eur"
)
"""Last words of columns that questions leave out."""
