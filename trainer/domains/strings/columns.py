"""Realistic columns of text: the inputs of pretraining tasks. No task of a benchmark is used.

A column is represented by a function. Each call returns the text of another cell. The cells of a column
share separators, digit counts, constant words and optional parts.
"""

from collections.abc import Callable
from random import Random

Cell = Callable[[], str]

_ONSETS = "b br c ch cl d dr f g gr h j k l m n p pr qu r s sh st t tr v w".split()
_VOWELS = [*3 * "aeiou", "ai", "ea", "ou", "é", "ü"]
_CODAS = ["", "", "", "n", "r", "l", "s", "t", "ck", "nd", "m", "x", "ng"]
_UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGITS = "0123456789"
_TITLES = "Dr. Mr. Mrs. Ms. Prof. Dr Mr Sir".split()
_SUFFIXES = "Jr. Sr. III PhD MD Esq.".split()
_MONTHS = "January February March April May June July August September October November December".split()
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_EXTENSIONS = "txt pdf csv jpg py docx xlsx tar.gz png html".split()
_DOMAINS = "com org net io co.uk edu de info".split()
_UNITS = "kg g cm mm ml USD EUR % km lb oz GB MB hrs min px".split()
_STREETS = "St Street Ave Avenue Rd Road Blvd Lane Ln Dr Drive Way".split()
_PHONES = (
    "{0}-{1}-{2}|({0}) {1}-{2}|{0}.{1}.{2}|{0} {1} {2}|+{3} {0} {1} {2}|+{3}-{0}-{1}-{2}|{1}-{2}|{0}{1}{2}|"
    "{3}-{0}-{1}-{2}|({0}){1}-{2}|+{3} ({0}) {1}-{2}|{0}-{1}-{2} x{3}|0{0}/{1}{2}"
).split("|")
_DATES = (
    "{y}-{m}-{d}|{d}/{m}/{y}|{m}/{d}/{y}|{d}.{m}.{y}|{y}/{m}/{d}|{M} {d}, {y}|{d} {M} {y}|{N} {d}, {y}|"
    "{d}-{N}-{y}|{y}{m}{d}|{W}, {d} {M}|{M} {y}|{d}/{m}|{y}-{m}-{d} {h}:{i}|{y}-{m}-{d}T{h}:{i}:{s}|{N} {y}|"
    "{d}-{m}-{t}|{W} {d}.{m}."
).split("|")
_TIMES = "{h}:{m}|{h}:{m} {p}|{h}:{m}{p}|{h}:{m}:{s}|{h}h{m}|{h} {p}|{h}.{m}".split("|")
_SEPARATORS = (" ", "-", "_", ".", "/", ",", ", ", ":", ";", "|", " - ", ": ", "  ", "#", "+", "=")


def word(rng: Random) -> str:
    text = ""
    for _ in range(rng.choices((1, 2, 3), (3, 5, 2))[0]):
        text += rng.choice(_ONSETS) + rng.choice(_VOWELS)
    text += rng.choice(_CODAS)
    return text if len(text) > 1 else text + "o"


def _cap(text: str) -> str:
    return text[:1].upper() + text[1:]


def _num(rng: Random, low: int, high: int) -> str:
    return "".join(rng.choice(_DIGITS) for _ in range(rng.randint(low, high)))


def _two(rng: Random, most: int) -> str:
    return f"{rng.randint(0, most):02d}"


def _code(rng: Random, low: int = 1, high: int = 4) -> str:
    return "".join(rng.choice(_UPPER) for _ in range(rng.randint(low, high)))


def _names(rng: Random) -> Cell:
    title, middle, suffix, comma = (rng.choice((0.0, 0.0, 0.0, 0.4, 1.0)) for _ in range(4))
    many = rng.random() < 0.1
    case = rng.choice((_cap, _cap, _cap, str.lower, str.upper))
    hyphen = rng.random() < 0.15
    fixed = rng.choice(_TITLES)
    vary = rng.random() < 0.7

    def cell() -> str:
        first, last = case(word(rng)), case(word(rng))
        if hyphen and rng.random() < 0.5:
            last += "-" + case(word(rng))
        parts = [first]
        if rng.random() < middle:
            parts.append(rng.choice((rng.choice(_UPPER) + ".", rng.choice(_UPPER), case(word(rng)))))
        if many and rng.random() < 0.5:
            parts.append(case(word(rng)))
        text = f"{last}, {' '.join(parts)}" if comma == 1.0 else " ".join([*parts, last])
        if rng.random() < title:
            text = f"{rng.choice(_TITLES) if vary else fixed} {text}"
        if rng.random() < suffix * 0.6:
            text += rng.choice((", ", " ")) + rng.choice(_SUFFIXES)
        return text

    return cell


def _single_words(rng: Random) -> Cell:
    case = rng.choice((_cap, str.lower, str.upper, str.lower))
    return lambda: case(word(rng))


def _phones(rng: Random) -> Cell:
    chosen = rng.sample(_PHONES, rng.choice((1, 1, 2, 2, 3)))
    return lambda: rng.choice(chosen).format(*(_num(rng, *of) for of in ((3, 3), (3, 3), (4, 4), (1, 2))))


def _dates(rng: Random) -> Cell:
    padded = rng.random() < 0.6
    chosen = rng.sample(_DATES, rng.choice((1, 1, 1, 2)))

    def cell() -> str:
        month, day = rng.randint(1, 12), rng.randint(1, 28)
        name = _MONTHS[month - 1]
        shown = "02d" if padded else "d"
        form = rng.choice(chosen)
        year, short = rng.randint(1950, 2035), _two(rng, 99)
        return form.format(
            y=year, t=short, m=format(month, shown), d=format(day, shown), M=name, N=name[:3],
            W=rng.choice(_DAYS), h=_two(rng, 23), i=_two(rng, 59), s=_two(rng, 59),
        )  # fmt: skip

    return cell


def _times(rng: Random) -> Cell:
    chosen = rng.sample(_TIMES, rng.choice((1, 1, 2)))
    halves = ("AM", "PM") if rng.random() < 0.5 else ("am", "pm")
    return lambda: rng.choice(chosen).format(
        h=rng.randint(0, 23), m=_two(rng, 59), s=_two(rng, 59), p=rng.choice(halves)
    )


def _paths(rng: Random) -> Cell:
    slash = rng.choice(("/", "/", "\\"))
    root = rng.choice(("", slash, "C:\\" if slash == "\\" else "/home/", "./" if slash == "/" else ""))
    low = rng.randint(0, 2)
    high = low + rng.randint(0, 2)
    dotted = rng.random() < 0.2
    bare = rng.choice((0.0, 0.0, 0.3))

    def cell() -> str:
        name = word(rng) + rng.choice(
            ("", "", "_" + word(rng), "-" + _num(rng, 1, 3), "." + word(rng) if dotted else "")
        )
        name += "" if rng.random() < bare else "." + rng.choice(_EXTENSIONS)
        return root + slash.join([word(rng) for _ in range(rng.randint(low, high))] + [name])

    return cell


def _urls(rng: Random) -> Cell:
    scheme = rng.choice((1.0, 1.0, 0.5, 0.0))
    www = rng.choice((0.0, 0.5, 1.0))
    pages = rng.randint(0, 3)
    query = rng.choice((0.0, 0.0, 0.5, 1.0))
    slash = rng.choice((0.0, 0.0, 0.4))

    def cell() -> str:
        text = rng.choice(("http://", "https://")) if rng.random() < scheme else ""
        text += "www." if rng.random() < www else ""
        text += (word(rng) + "." if rng.random() < 0.2 else "") + word(rng) + "." + rng.choice(_DOMAINS)
        text += "".join(
            "/" + rng.choice((word(rng), word(rng), _num(rng, 1, 4), word(rng) + "-" + word(rng)))
            for _ in range(rng.randint(0, pages))
        )
        text += "/" if rng.random() < slash else ""
        if rng.random() < query:
            text += f"?{word(rng)}={rng.choice((word(rng), _num(rng, 1, 3)))}"
        return text

    return cell


def _emails(rng: Random) -> Cell:
    middle = rng.choice((".", "_", "", "-", "+"))
    one = rng.choice((0.0, 0.5, 1.0))
    shown = rng.choice((0.0, 0.0, 0.0, 0.5, 1.0))

    def cell() -> str:
        is_one = rng.random() < one
        local = word(rng) + ("" if is_one else middle + rng.choice((word(rng), _num(rng, 1, 3))))
        text = f"{local}@{word(rng)}.{rng.choice(_DOMAINS)}"
        return f"{_cap(word(rng))} {_cap(word(rng))} <{text}>" if rng.random() < shown else text

    return cell


def _cities(rng: Random) -> Cell:
    state, zipped, country, street, house = (rng.choice((0.0, 0.0, 0.5, 1.0)) for _ in range(5))
    code = "".join(rng.sample(_UPPER, 2))
    fixed = rng.random() < 0.3
    same_country = _cap(word(rng))

    def cell() -> str:
        text = _cap(word(rng)) + (" " + _cap(word(rng)) if rng.random() < 0.2 else "")
        if rng.random() < state:
            text += ", " + (code if fixed else _code(rng, 2, 2))
            if rng.random() < zipped:
                text += " " + _num(rng, 5, 5)
        if rng.random() < country:
            text += ", " + rng.choice(("USA", "UK", same_country, _cap(word(rng))))
        if rng.random() < street:
            text = f"{_num(rng, 1, 4)} {_cap(word(rng))} {rng.choice(_STREETS)}, {text}"
            if rng.random() < house * 0.5:
                unit = rng.choice(("Apt", "Unit", "#", "Suite"))
                text = text.replace(",", f" {unit} {_num(rng, 1, 3)},", 1)
        return text

    return cell


def _amounts(rng: Random) -> Cell:
    mark = rng.choice(("$", "€", "", "", "£", "USD ", "EUR "))
    after = "" if mark else rng.choice(("", " ", " ")) + rng.choice(_UNITS)
    fixed_unit = rng.random() < 0.5
    cents, thousands = rng.choice((0.0, 0.5, 1.0)), rng.choice((0.0, 0.0, 0.5))
    negative = rng.choice((0.0, 0.0, 0.0, 0.3))
    decimal = rng.choice((".", ".", ","))

    def cell() -> str:
        text = _num(rng, 1, 4).lstrip("0") or "0"
        if rng.random() < thousands:
            text = f"{rng.randint(1, 99)},{_num(rng, 3, 3)}"
        if rng.random() < cents:
            text += decimal + _num(rng, 1, 2)
        unit = after if fixed_unit or not after else (" " if after[0] == " " else "") + rng.choice(_UNITS)
        return ("-" if rng.random() < negative else "") + mark + text + unit

    return cell


def _integers(rng: Random) -> Cell:
    low = rng.randint(1, 3)
    high = low + rng.randint(0, 3)
    return lambda: _num(rng, low, high)


def _sentences(rng: Random) -> Cell:
    low = rng.randint(1, 3)
    high = low + rng.randint(0, 3)
    end = rng.choice(("", "", ".", "!", "?", "..."))
    case = rng.choice((str.lower, _cap, str.title, str.upper))
    comma = rng.random() < 0.15
    numbered = rng.choice((0.0, 0.0, 0.4))

    def cell() -> str:
        count = rng.randint(low, high)
        words = [_num(rng, 1, 3) if rng.random() < numbered else word(rng) for _ in range(count)]
        return case((", " if comma else " ").join(words)) + end

    return cell


def _padded(rng: Random) -> Cell:
    inner = column(rng, mixed=False)
    left, right, between = rng.randint(0, 2), rng.randint(0, 2), rng.random() < 0.5

    def cell() -> str:
        text = inner().replace(" ", " " * rng.randint(1, 3)) if between else inner()
        return " " * rng.randint(0, left) + text + " " * rng.randint(0, right)

    return cell


def _versions(rng: Random) -> Cell:
    name = rng.choice(("", "v", _cap(word(rng)) + " ", word(rng) + "-", "Version "))
    vary = rng.random() < 0.5
    parts = rng.randint(1, 4)
    tail = rng.choice((0.0, 0.0, 0.5))

    def cell() -> str:
        start = _cap(word(rng)) + " " if vary and name[-1:] == " " else name
        text = start + ".".join(_num(rng, 1, 2) for _ in range(rng.randint(max(1, parts - 1), parts)))
        return text + (rng.choice(("-beta", "rc1", "-rc2", "a", "-alpha")) if rng.random() < tail else "")

    return cell


def _cased(rng: Random) -> Cell:
    style = rng.randrange(5)

    def cell() -> str:
        words = [word(rng) for _ in range(rng.randint(1, 4))]
        if style == 0:
            return "".join(_cap(w) for w in words)
        if style == 1:
            return words[0] + "".join(_cap(w) for w in words[1:])
        if style == 2:
            return "_".join(words).upper()
        return ("_" if style == 3 else "-").join(words)

    return cell


def _pairs(rng: Random) -> Cell:
    mark = rng.choice(("=", ":", ": ", " = ", "->"))
    end = rng.choice((";", "&", ", ", " "))
    keys = [word(rng) for _ in range(3)]
    most = rng.randint(1, 3)
    return lambda: end.join(
        f"{key}{mark}{rng.choice((word(rng), _num(rng, 1, 4)))}" for key in keys[: rng.randint(1, most)]
    )


def _bracketed(rng: Random) -> Cell:
    left, right = rng.choice(("()", "[]", "<>", "{}", '""', "''"))
    first = rng.random() < 0.25
    optional = rng.choice((1.0, 1.0, 0.5))
    inside = _single_words(rng) if rng.random() < 0.6 else _integers(rng)
    outside = _sentences(rng) if rng.random() < 0.5 else _single_words(rng)

    def cell() -> str:
        if rng.random() > optional:
            return outside()
        part = left + inside() + right
        return f"{part} {outside()}" if first else f"{outside()} {part}"

    return cell


def _field(rng: Random) -> Cell:
    draw = rng.random()
    if draw < 0.28:
        low = rng.randint(1, 3)
        high = low + rng.choice((0, 0, 1, 2))
        return lambda: _num(rng, low, high)
    if draw < 0.50:
        low = rng.randint(1, 3)
        high = low + rng.choice((0, 0, 1))
        return lambda: _code(rng, low, high)
    if draw < 0.78:
        return _single_words(rng)
    if draw < 0.90:
        constant = rng.choice((word(rng), _cap(word(rng)), _code(rng, 2, 4), "No.", "ID", "x"))
        return lambda: constant
    if rng.random() < 0.5:
        return lambda: _code(rng, 1, 2) + _num(rng, 1, 4)
    return lambda: _num(rng, 1, 3) + word(rng)


def _template(rng: Random) -> Cell:
    fields = [_field(rng) for _ in range(rng.choices((2, 3, 4, 5), (3, 5, 3, 1))[0])]
    same = rng.random() < 0.6
    mark = rng.choice(_SEPARATORS)
    marks = [mark if same else rng.choice((*_SEPARATORS, "")) for _ in fields]
    missing = rng.choice((0.0, 0.0, 0.0, 0.3, 0.5))
    start = rng.choice(("", "", "", "#", "@", "(", "$"))

    def cell() -> str:
        text = start
        shown = [i for i in range(len(fields)) if i == 0 or rng.random() >= missing]
        for position, index in enumerate(shown):
            text += (marks[index] if position else "") + fields[index]()
        return text + (")" if start == "(" else "")

    return cell


def _mixed(rng: Random) -> Cell:
    first, second = column(rng, mixed=False), column(rng, mixed=False)
    share = rng.choice((0.3, 0.5, 0.5, 0.7))
    return lambda: first() if rng.random() < share else second()


def _tagged(rng: Random) -> Cell:
    inner = column(rng, mixed=False)
    own = (word(rng), _cap(word(rng)), _code(rng, 2, 3))
    tag = rng.choice((*own, "N/A", "Re: ", "www.", "*", "~", "not ", "+", "!"))
    glue = rng.choice(("", " ", "-", ": ", "_"))
    first = rng.random() < 0.6
    return lambda: (
        inner() if rng.random() < 0.5 else (tag + glue + inner() if first else inner() + glue + tag)
    )


def _sometimes_empty(rng: Random) -> Cell:
    inner = column(rng, mixed=False)
    return lambda: "" if rng.random() < 0.3 else inner()


_FAMILIES: tuple[tuple[float, Callable[[Random], Cell]], ...] = (
    (12, _names), (7, _single_words), (6, _phones), (7, _dates), (2.5, _times), (6, _paths), (5, _urls),
    (4.5, _emails), (6, _cities), (5, _amounts), (4, _integers), (9, _sentences), (3.5, _versions),
    (4, _cased), (2.5, _pairs), (4, _bracketed), (16, _template),
    (4, _padded), (9, _mixed), (6, _tagged), (2.5, _sometimes_empty),
)  # fmt: skip
_PLAIN = len(_FAMILIES) - 4
"""Number of families that do not build on other columns; they come first in `_FAMILIES`."""


def column(rng: Random, mixed: bool = True) -> Cell:
    """Return a random new column. If `mixed` is false, the column is not composed of other columns."""
    families = _FAMILIES if mixed else _FAMILIES[:_PLAIN]
    return rng.choices([family for _, family in families], [weight for weight, _ in families])[0](rng)
