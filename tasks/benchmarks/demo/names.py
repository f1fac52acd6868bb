"""Names of invented people, from many parts of the world."""

from random import Random

from tasks.benchmarks.demo.draw import shuffled

GIVEN = (
    "Ada", "Adil", "Agnes", "Aiko", "Alba", "Amara", "Anders", "Anouk", "Arun", "Asha", "Aurel", "Beata",
    "Bela", "Bruno", "Camila", "Carlo", "Chidi", "Clara", "Dalia", "Daniel", "Darya", "Dina", "Edda",
    "Elias", "Elif", "Emeka", "Enzo", "Esther", "Farid", "Fatou", "Felix", "Freya", "Gita", "Greta", "Hana",
    "Hugo", "Ida", "Ilan", "Imani", "Ines", "Ivo", "Jana", "Jun", "Kaito", "Kamal", "Karin", "Keira", "Kofi",
    "Lars", "Leila", "Lena", "Linus", "Lior", "Lucia", "Luka", "Mads", "Maia", "Malik", "Mara", "Mateo",
    "Mei", "Milan", "Mina", "Nadia", "Naoki", "Nia", "Nils", "Noor", "Olga", "Omar", "Oskar", "Paula",
    "Pedro", "Petra", "Priya", "Rafael", "Rana", "Rhea", "Rosa", "Rune", "Sami", "Sana", "Selma", "Silas",
    "Sofia", "Stella", "Tamar", "Tariq", "Theo", "Tilda", "Tomas", "Uma", "Vera", "Viktor", "Wanda", "Yara",
    "Yusuf", "Zainab", "Zofia",
)  # fmt: skip

FAMILY = (
    "Abara", "Adeyemi", "Albrecht", "Almeida", "Amsel", "Aoki", "Arslan", "Barros", "Basu", "Becker",
    "Bellini", "Bergstrom", "Blanc", "Borges", "Brandt", "Castellan", "Chandra", "Cho", "Costa", "Dahl",
    "Danso", "Deveraux", "Dietz", "Duarte", "Egede", "Ekman", "Farkas", "Ferrand", "Figueroa", "Fontaine",
    "Fujita", "Galanis", "Gandhi", "Gruber", "Haddad", "Halloran", "Hamid", "Hartono", "Hayashi", "Holm",
    "Horvath", "Ibarra", "Iversen", "Jansen", "Juric", "Kaminski", "Kaplan", "Karlsen", "Keita", "Kimura",
    "Kovac", "Kruger", "Lacroix", "Laine", "Lindqvist", "Lopes", "Maalouf", "Madsen", "Marchetti", "Mbeki",
    "Melnyk", "Mensah", "Moreau", "Morita", "Nakata", "Navarro", "Ndiaye", "Nemeth", "Novak", "Nystrom",
    "Okafor", "Olsen", "Ortega", "Osman", "Palmer", "Pavlou", "Perera", "Petrov", "Quist", "Rahman", "Ramos",
    "Rao", "Rossi", "Ruiz", "Saar", "Salonen", "Santos", "Sato", "Seidel", "Sharma", "Silva", "Soto",
    "Stein", "Suzuki", "Szabo", "Takeda", "Tanaka", "Thorne", "Toth", "Uddin", "Ulrich", "Vance", "Varga",
    "Vidal", "Vogel", "Wahl", "Weiss", "Yamada", "Yilmaz", "Zeman", "Ziegler",
)  # fmt: skip


def people(rng: Random, count: int) -> list[tuple[str, str]]:
    """Return that many different (given name, family name) pairs; at most as many as there are pairs."""
    return shuffled(rng, [(given, family) for given in GIVEN for family in FAMILY])[:count]
