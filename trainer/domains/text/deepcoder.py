"""Converts rows of DeepCoder (`agentica-org/DeepCoder-Preview-Dataset`) to rows of LiveCodeBench.

The columns are `problem`, `tests` and optionally `starter_code` and `metadata`. `tests` is JSON in one of
three formats: `{"inputs", "outputs", "fn_name"}` (TACO), a list of `{"type", "input", "output", "fn_name"}`
(PrimeIntellect), or LiveCodeBench's list with `testtype`. If `fn_name` is given, the output `[x]` means `x`.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from evovpo.errors import ProblemError
from evovpo.types import content_id


def is_deepcoder(row: Mapping[str, Any]) -> bool:
    return {"problem", "tests"} <= row.keys() and "question_content" not in row


def as_livecodebench(row: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Convert a row to LiveCodeBench's fields. Raises `ProblemError` for an unknown format of its tests."""
    try:
        tests = json.loads(row["tests"]) if isinstance(row["tests"], str) else row["tests"]
        if isinstance(tests, dict):
            pairs = zip(tests["inputs"], tests["outputs"], strict=True)
            tests = [{"input": one, "output": other, "fn_name": tests.get("fn_name")} for one, other in pairs]
        names = {str(test["fn_name"]) for test in tests if test.get("fn_name")}
        cases = [test if "testtype" in test else _case(test) for test in tests]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProblemError(
            f"{where}: tests: expected one of DeepCoder's three kinds, found {error!r}"
        ) from error
    starter, metadata = row.get("starter_code") or "", row.get("metadata") or {}
    if names:
        name = min(names)
        count = len(str(cases[0]["input"]).split("\n")) if cases else 0
        starter = starter or f"def {name}({', '.join(f'arg{place + 1}' for place in range(count))}):\n"
        metadata = {"func_name": name}
    return {
        "question_id": content_id(str(row["problem"]))[:12],
        "platform": "deepcoder",
        "question_content": row["problem"],
        "starter_code": starter,
        "public_test_cases": [],
        "private_test_cases": cases,
        "metadata": metadata,
    }


def _case(test: Mapping[str, Any]) -> dict[str, str]:
    if not test.get("fn_name"):
        return {"input": _text(test["input"]), "output": _text(test["output"]), "testtype": "stdin"}
    expected = test["output"]
    if isinstance(expected, list) and len(expected) == 1:
        expected = expected[0]
    arguments = test["input"] if isinstance(test["input"], list) else [test["input"]]
    lines = "\n".join(json.dumps(one) for one in arguments)
    return {"input": lines, "output": json.dumps(expected), "testtype": "functional"}


def _text(value: Any) -> str:
    return "\n".join(map(str, value)) if isinstance(value, Iterable) and not isinstance(value, str) else value
