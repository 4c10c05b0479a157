"""Reads the rows of `examples.json` and checks them for contradictions."""

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from evovpo.problem.faults import EXAMPLES, TOML, Faults, read_file, shown
from evovpo.types import Example, Json, Problem

_DEEPEST_VALUE = 50


class ExampleRow(NamedTuple):
    where: str
    example: Example


def read_examples(
    folder: Path, parameters: tuple[str, ...] | None, faults: Faults
) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """Return the training and held-out rows. Errors, such as contradicting rows, are added to `faults`."""
    text = read_file(folder / EXAMPLES, faults)
    if text is None:
        return (), ()
    try:
        data = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        faults.add(EXAMPLES, "", "JSON", str(error), "correct it")
        return (), ()
    if not isinstance(data, dict):
        faults.add(EXAMPLES, "", '{"train": [...], "heldout": [...]}', shown(data), "wrap the rows")
        return (), ()
    faults.check_keys(EXAMPLES, "", data, ("train", "heldout"))
    if parameters == ():
        faults.add(TOML, "[problem] inputs", "at least one name", "none", "examples need inputs: name them")
    if not data.get("train"):
        faults.add(EXAMPLES, "train", "at least one row", "none", "add rows")
    train = _rows(data, "train", parameters, faults)
    heldout = _rows(data, "heldout", parameters, faults)
    for first, second in twins(train, heldout):
        wanted, found = first.example.output, second.example.output
        if not same_value(found, wanted):
            expected = f"the output {shown(wanted)} of {first.where}, which has the same inputs"
            faults.add(EXAMPLES, second.where, expected, shown(found), "correct one or remove it")
    return tuple(row.example for row in train), tuple(row.example for row in heldout)


def _rows(
    data: Mapping[str, Any], part: str, parameters: tuple[str, ...] | None, faults: Faults
) -> list[ExampleRow]:
    rows = data.get(part, [])
    if not isinstance(rows, list):
        faults.add(EXAMPLES, part, "a list of rows", shown(rows), "write a list")
        return []
    found: list[ExampleRow] = []
    for index, row in enumerate(rows):
        where = f"{part}[{index}]"
        if not isinstance(row, dict) or not row.keys() >= {"inputs", "output"}:
            faults.add(EXAMPLES, where, '{"inputs": [...], "output": ...}', shown(row), "complete it")
            continue
        faults.check_keys(EXAMPLES, f"{where}.", row, ("inputs", "output"))
        inputs = row["inputs"]
        fault = _value_fault(row)
        if fault is not None:
            faults.add(EXAMPLES, where, fault[0], shown(row), fault[1])
        elif not isinstance(inputs, list):
            faults.add(EXAMPLES, f"{where}.inputs", "a list", shown(inputs), "put brackets around it")
        elif parameters is not None and len(inputs) != len(parameters):
            expected = f"{len(parameters)} inputs ({', '.join(parameters)})"
            fix = f"correct the row, or inputs in {TOML}"
            faults.add(EXAMPLES, f"{where}.inputs", expected, f"{len(inputs)}: {shown(inputs)}", fix)
        else:
            found.append(ExampleRow(where, Example(tuple(inputs), row["output"])))
    return found


def _refuse_constant(text: str) -> Json:
    raise ValueError(f"{text} is not a JSON value")


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError(f"a key is repeated in an object with the keys {[key for key, _ in pairs]!r:.80}")
    return value


def _value_fault(row: Json) -> tuple[str, str] | None:
    if _depth(row) > _DEEPEST_VALUE:
        return f"at most {_DEEPEST_VALUE} nested lists", "flatten the value"
    try:
        json.dumps(row, allow_nan=False, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "Unicode text without halves of surrogate pairs", "correct the text"
    except ValueError:
        return "finite numbers", "use a smaller one"
    return None


def _depth(value: Json) -> int:
    parts = list(value.values()) if isinstance(value, dict) else value
    return max((1 + _depth(part) for part in parts), default=0) if isinstance(parts, list) else 0


def twins(*parts: Sequence[ExampleRow]) -> Iterator[tuple[ExampleRow, ExampleRow]]:
    """Yield (first row, later row) for each later row with the same inputs. The inputs 1 and 1.0 differ."""
    first: dict[str, ExampleRow] = {}
    for row in itertools.chain(*parts):
        other = first.setdefault(json.dumps(row.example.inputs, sort_keys=True), row)
        if other is not row:
            yield other, row


def repeated_rows(problem: Problem) -> Iterator[str]:
    """Yield a warning for each training or held-out row that has the inputs of an earlier row."""
    train = [ExampleRow(f"train[{index}]", row) for index, row in enumerate(problem.train)]
    heldout = [ExampleRow(f"heldout[{index}]", row) for index, row in enumerate(problem.heldout)]
    for first, second in twins(train, heldout):
        is_leak = first.where.startswith("train") and second.where.startswith("heldout")
        what = "a held-out row must be a new one" if is_leak else "remove one"
        yield f"examples.json: {second.where} repeats {first.where}; {what}"


def same_value(output: Json, expected: Json) -> bool:
    """True if two JSON values are equal, floats up to one part in 10^9; 1 and `True` are different."""
    if isinstance(expected, list):
        return (
            isinstance(output, list)
            and len(output) == len(expected)
            and all(map(same_value, output, expected))
        )
    if isinstance(expected, dict):
        return (
            isinstance(output, dict)
            and output.keys() == expected.keys()
            and all(same_value(output[key], value) for key, value in expected.items())
        )
    if isinstance(output, bool) or isinstance(expected, bool):
        return output is expected
    numbers = [one for one in (output, expected) if isinstance(one, int | float) and abs(one) < 2**53]
    if len(numbers) == 2 and float in map(type, numbers):
        return math.isclose(*numbers, abs_tol=1e-12)
    return output == expected
