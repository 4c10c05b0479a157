"""Tables of made-up names: first and last names of lists, combined by chance."""

import csv
from collections.abc import Sequence
from pathlib import Path
from random import Random

FIRST = [
    "Ada", "Alma", "Amara", "Anders", "Anouk", "Arjun", "Beatriz", "Boris", "Chiara", "Claire", "Dalia",
    "David", "Elena", "Emil", "Farah", "Felix", "Greta", "Hugo", "Ines", "Ivan", "Jana", "Jonas", "Kaito",
    "Karin", "Lara", "Leo", "Lucia", "Marta", "Mina", "Nadia", "Nils", "Olga", "Omar", "Paula", "Pedro",
    "Rosa",
]  # fmt: skip
LAST = [
    "Abel", "Alvarez", "Becker", "Berg", "Castro", "Cohen", "Dahl", "Dubois", "Eriksen", "Falk", "Ferrari",
    "Garcia", "Haas", "Hansen", "Ito", "Jansen", "Keller", "Kowalski", "Lang", "Lindgren", "Lopez",
    "Marino", "Meyer", "Moreau", "Novak", "Okafor", "Olsen", "Petrov", "Quist", "Rossi", "Sato",
]  # fmt: skip
TITLES = ("Dr.", "Prof.", "Ms.", "Mr.")
PLAIN = ("{first} {last}",)
"""The form of a table that every search solves, whatever its luck."""
MIXED = ("{title} {first} {last}", "{last}, {first}", "{first} {last}")


def names(count: int = 300, forms: Sequence[str] = MIXED) -> list[tuple[str, str]]:
    """Return names, each in one of some forms such as `Dr. Ada Berg` or `Berg, Ada`, and as `A. Berg`."""
    rng = Random(7)
    people = rng.sample([(first, last) for first in FIRST for last in LAST], count)
    return [
        (rng.choice(forms).format(title=rng.choice(TITLES), first=first, last=last), f"{first[0]}. {last}")
        for first, last in people
    ]


def name_columns(count: int = 300) -> list[tuple[str, str, str, str]]:
    """Return first name, last name, title (missing for some) and `Berg, Ada`."""
    rng = Random(8)
    people = rng.sample([(first, last) for first in FIRST for last in LAST], count)
    return [(first, last, rng.choice((*TITLES, "", "", "")), f"{last}, {first}") for first, last in people]


def write_names(path: Path, count: int = 300, forms: Sequence[str] = MIXED) -> Path:
    """Write a CSV file with the columns `name` and `short` of names."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("name", "short"), *names(count, forms)])
    return path
