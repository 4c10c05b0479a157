"""The Python API: runs on Python values, own scorers and proposers, ask and tell, reading."""

import asyncio
import subprocess
import sys
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import evovpo

INPUTS = [[1.0], [2.0]]
IDENTITY = "def f(x):\n    return x\n"
SQUARE = "```python\ndef f(x):\n    return x * x\n```"
BROKEN = "```python\ndef f(x):\n    return 1 / (x - 2)\n```"


def scorer(outputs: list[Any]) -> dict[str, float]:
    return {
        name: 0.0 if isinstance(output, evovpo.Failed) else max(0.0, 1 - abs(output - wanted))
        for name, output, wanted in zip(("one", "two"), outputs, (1.0, 4.0), strict=True)
    }


def square(messages: Sequence[dict[str, str]], n: int) -> list[str]:
    return [SQUARE] * n


def scored(tmp_path: Path, **changes: Any) -> evovpo.EvolveResult:
    arguments: dict[str, Any] = {
        "score": scorer, "seed_program": IDENTITY, "entry": "f", "inputs": INPUTS, "proposer": square,
        "evaluations": 16, "store": tmp_path / "x.db", "settings": {"sandbox.workers": 1},
    }  # fmt: skip
    return evovpo.evolve(**arguments | changes)


def test_importing_the_package_loads_nothing_heavy() -> None:
    program = "import sys, evovpo; print({'torch', 'numpy', 'pydantic', 'sqlalchemy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_an_own_scorer_judges_and_an_own_proposer_writes(tmp_path: Path) -> None:
    asked: list[str] = []

    def propose(messages: list[dict[str, str]], n: int) -> list[str]:
        asked.append(messages[-1]["content"])
        return [SQUARE] * n

    run = scored(tmp_path, proposer=propose)
    assert run.solved_train
    assert run.solved_heldout is None
    assert run.best.source == "def f(x):\n    return x * x\n"
    assert run.best.rewards == {"one": 1.0, "two": 1.0}
    assert "def f(x):\n    return x\n" in asked[0]


def test_a_proposer_that_writes_no_program_is_said(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="none of the 4 candidates held a program"):
        run = scored(tmp_path, proposer=lambda messages, n: ["I cannot do that."] * n, evaluations=4)
    assert "none of the 4 candidates held a program" in run.stopped


def test_programs_that_all_fail_are_said_and_never_the_best(tmp_path: Path) -> None:
    seed = "def f(x):\n    return -9\n"  # reward 0, as for a program that fails
    with pytest.warns(UserWarning, match="every program failed, most often with error"):
        run = scored(
            tmp_path,
            seed_program=seed,
            proposer=lambda messages, n: ["```python\nx ==\n```"] * n,
            evaluations=4,
        )
    assert run.best.source == seed


def test_a_run_whose_proposer_fails_goes_on_with_another(tmp_path: Path) -> None:
    def fail(messages: list[dict[str, str]], n: int) -> list[str]:
        raise ConnectionError("no answer")

    rows, store = [((text,), text.upper()) for text in ("ab", "cd", "ef")], tmp_path / "x.db"
    with pytest.raises(evovpo.EvovpoError, match="it raised ConnectionError: no answer") as failed:
        evovpo.evolve(examples=rows, proposer=fail, evaluations=9, store=store)
    cause = failed.value.__cause__
    assert isinstance(cause, ConnectionError)
    assert [frame.name for frame in traceback.extract_tb(cause.__traceback__)] == ["fail"]
    assert len(traceback.format_exception(failed.value)) < 20
    right = "```python\ndef solve(x):\n    return x.upper()\n```"
    run = evovpo.resume(proposer=lambda messages, n: [right] * n, store=store)
    assert (run.solved_train, run.best.source) == (True, "def solve(x):\n    return x.upper()\n")
    assert len(evovpo.list_runs(store)) == 1
    with pytest.raises(evovpo.EvovpoError, match="'nowhere'"):
        evovpo.resume("nowhere", store=store)


def test_a_run_with_a_score_function_is_resumed_with_the_same_function_only(tmp_path: Path) -> None:
    half = "```python\ndef f(x):\n    return x * 1.5\n```"
    run = scored(tmp_path, proposer=lambda messages, n: [half] * n, evaluations=4)
    more: dict[str, Any] = {"proposer": square, "evaluations": 9}
    with pytest.raises(evovpo.EvovpoError, match="resume it there, with the same score= and inputs="):
        evovpo.resume(run, **more)
    with pytest.raises(evovpo.EvovpoError, match="score needs the inputs that the run began with"):
        evovpo.resume(run, score=scorer, **more)
    with pytest.raises(evovpo.EvovpoError, match="score function scorer: the problem changed"):
        evovpo.resume(run, score=scorer, inputs=[[1.0], [4.0]], **more)
    assert not run.solved_train
    assert evovpo.resume(run, score=scorer, inputs=INPUTS, **more).solved_train
    other = evovpo.evolve(
        examples=[(("a",), "a")], proposer=lambda messages, n: [half] * n, store=run.store, evaluations=4
    )
    with pytest.raises(evovpo.EvovpoError, match="has no score function; leave score"):
        evovpo.resume(other, score=scorer, inputs=INPUTS, **more)


def test_programs_of_examples_get_the_given_limits(tmp_path: Path) -> None:
    slow = "```python\nimport time\ndef solve(x):\n    time.sleep(2.1)\n    return x * 2\n```"

    def run(**more: Any) -> evovpo.EvolveResult:
        rows, store = [(("a",), "aa")], tmp_path / "slow.db"
        return evovpo.evolve(examples=rows, proposer=lambda messages, n: [slow] * n, store=store, **more)

    with pytest.warns(UserWarning, match="every program failed, most often with timeout"):
        assert "allow them more, with limits=" in run(evaluations=1).advice[0]
    assert run(evaluations=1, limits={"wall_seconds": 30}).solved_train
    with pytest.raises(evovpo.EvovpoError, match=r"\[limits\] wall: expected a known key"):
        run(limits={"wall": 30})


def test_an_invalid_score_names_the_run_that_can_go_on(tmp_path: Path) -> None:
    def bad(outputs: list[Any]) -> dict[str, float]:
        return {"reward": 0.5 if outputs == [1] else -1.0}

    begun: dict[str, Any] = {"score": bad, "inputs": [[1]], "store": tmp_path / "x.db", "evaluations": 2}
    half = "```python\ndef solve(x):\n    return 2\n```"
    with pytest.raises(evovpo.EvovpoError, match=r"returned -1.0; .* evovpo.resume continues run \w{12}, "):
        evovpo.evolve(
            seed_program="def solve(x):\n    return 1", proposer=lambda messages, n: [half] * n, **begun
        )


def test_runs_in_threads_do_not_disturb_each_other(tmp_path: Path) -> None:
    def run(number: int) -> bool:
        return scored(tmp_path, store=tmp_path / f"{number}.db", evaluations=4).solved_train

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(4)))


def test_a_row_that_is_given_twice_is_said(tmp_path: Path) -> None:
    rows = [((text,), text.upper()) for text in ("ab", "cd", "ef")]
    right = "```python\ndef solve(x):\n    return x.upper()\n```"
    with pytest.warns(
        UserWarning, match=r"heldout\[0\] repeats train\[1\]; a held-out row must be a new one"
    ):
        evovpo.evolve(
            examples=rows, heldout=rows[1:2], store=tmp_path / "x.db", evaluations=4,
            proposer=lambda messages, n: [right] * n,
        )  # fmt: skip


def test_a_failure_on_one_input_is_told_apart(tmp_path: Path) -> None:
    seen: list[list[Any]] = []

    def score(outputs: list[Any]) -> dict[str, float]:
        seen.append(outputs)
        return scorer(outputs)

    run = scored(tmp_path, score=score, proposer=lambda messages, n: [BROKEN] * n, evaluations=8)
    assert [isinstance(outputs[1], evovpo.Failed) for outputs in seen] == [False, False, True]
    assert "ZeroDivisionError" in seen[-1][1].error
    assert run.best.rewards == {"one": 1.0, "two": 0.0}


def test_a_proposer_may_be_asynchronous_and_a_loop_may_run_already(tmp_path: Path) -> None:
    async def propose(messages: Sequence[dict[str, str]], n: int) -> list[str]:
        return square(messages, n)

    async def cell() -> evovpo.EvolveResult:
        return scored(tmp_path, proposer=propose)

    assert asyncio.run(cell()).solved_train


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"score": lambda outputs: {"one": 2.0}}, "returned 2.0; rewards lie in"),
        ({"score": lambda outputs: {}["missing"]}, "score function <lambda>: .* raised KeyError"),
        ({"score": lambda outputs: 0.5}, "expected .*name.*: reward.*, found 0.5"),
        ({"entry": "g"}, "g: expected a function of this name"),
        ({"seed_program": "def f(x):\n    return 1 / 0\n"}, "seed_program: expected one that runs"),
        ({"seed_program": "def f(x:"}, "seed_program: expected Python"),
        ({"inputs": []}, "found no inputs to run programs on"),
        ({"proposer": lambda messages, n: ["one", "two"]}, "expected a list of 1 texts, found"),
        ({"proposer": square, "model": "m"}, "found both; give one of them"),
        ({"examples": [(("a",), "b")]}, "give exactly one of them"),
        ({"settings": {"search.island": 2}}, "did you mean 'islands'"),
    ],
)
def test_what_cannot_be_used_is_one_clear_error(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(evovpo.EvovpoError, match=message):
        scored(tmp_path, **changes)


@pytest.mark.parametrize("examples", [[], [("a", "b")], [(1, 2)], [(("a",), "b"), (("a", "b"), "c")]])
def test_examples_that_are_none_are_refused(examples: Any) -> None:
    with pytest.raises(evovpo.EvovpoError, match="examples"):
        evovpo.evolve(examples=examples, proposer=square)


def test_two_runs_with_one_seed_are_alike_and_can_be_read(tmp_path: Path) -> None:
    texts = [SQUARE, "```python\ndef f(x):\n    return x + 0.5\n```", BROKEN, "no program"]

    def propose(messages: Sequence[dict[str, str]], n: int) -> list[str]:
        return [texts[number % 4] for number in range(n)]

    settings = {"sandbox.workers": 1, "search.stop_when_solved": False}
    found = [scored(tmp_path, proposer=propose, settings=settings) for _ in range(2)]
    assert found[0].best == found[1].best
    store = tmp_path / "x.db"
    assert [row.run for row in evovpo.list_runs(store)] == [found[1].id, found[0].id]
    first, second = (evovpo.read_run(run.id, store) for run in found)
    assert [program.id for program in first.programs] == [program.id for program in second.programs]
    lineage = first.lineage(found[0].best.id)
    assert (lineage[0].source, lineage[-1].source) == (found[0].best.source, IDENTITY)
    rows = first.rows()
    assert len({tuple(row) for row in rows}) == 1
    assert rows[0] | {"run": "", "program": ""} == {
        "run": "", "program": "", "order": 0, "kind": "seed", "island": 0, "parents": "", "status": "ok",
        "mean_reward": 0.5, "reward:one": 1.0, "reward:two": 0.0, "source": IDENTITY,
    }  # fmt: skip


def test_a_search_is_asked_and_told_by_its_user() -> None:
    settings = {"search.rollouts": 8}
    search = evovpo.Search(examples=[((1,), 1), ((2,), 4)], entry="f", evaluations=24, settings=settings)
    assert search.best is None
    prompt = search.ask()
    assert prompt is not None
    assert not prompt.has_model
    [source] = search.programs(prompt)
    search.tell(prompt, [], {source: {"row-1": 1.0, "row-2": 0.0}})
    assert search.best == (source, {"row-1": 1.0, "row-2": 0.0})
    prompt = search.ask()
    assert prompt is not None
    texts = [SQUARE, BROKEN, "no program"] + [SQUARE] * (prompt.rollouts - 3)
    sources = search.programs(prompt, texts)
    assert len(sources) == 2
    with pytest.raises(evovpo.EvovpoError, match="expected one entry for each"):
        search.tell(prompt, texts, {})
    search.tell(prompt, texts, {sources[0]: {"row-1": 1.0, "row-2": 1.0}, sources[1]: None})
    assert search.is_solved
    search.tell(prompt, texts, {})  # telling twice changes nothing
    while search.ask() is not None:
        pass


def test_programs_right_on_different_rows_are_joined_when_the_user_drives_the_search() -> None:
    rows = [(("a-b",), "A-B"), (("cd",), "CD"), (("E F",), "e f"), (("G H",), "g h")]
    sources = [f"def solve(x):\n    return x.{name}()\n" for name in ("upper", "lower")]

    def judge(source: str) -> dict[str, float]:
        scope: dict[str, Any] = {}
        exec(source, scope)
        return {
            f"row-{n}": float(scope["solve"](*given) == wanted) for n, (given, wanted) in enumerate(rows, 1)
        }

    search = evovpo.Search(
        examples=rows,
        evaluations=40,
        seed_program="def solve(x):\n    return x\n",
        settings={"search.rollouts": 8},
    )
    kinds = []
    while not search.is_solved and (prompt := search.ask()) is not None:
        kinds.append(prompt.kind)
        texts = (
            [f"```python\n{sources[n % 2]}```" for n in range(prompt.rollouts)] if prompt.has_model else []
        )
        search.tell(prompt, texts, {source: judge(source) for source in search.programs(prompt, texts)})
    assert kinds[-1] == "join"
    assert search.is_solved


def test_a_run_can_be_looked_at_called_and_made_from_a_dataframe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pandas = pytest.importorskip("pandas")
    assert {"evolve", "read_run"} <= set(dir(evovpo))
    frame = pandas.DataFrame({"A name": ["a <b>", "c", None, "to fill"], "wanted": ["A <B>", "C", "", None]})
    arguments: dict[str, Any] = {
        "proposer": lambda messages, n: ["```python\ndef solve(a_name):\n    return a_name.upper()\n```"] * n,
        "evaluations": 4, "store": tmp_path / "x.db", "settings": {"sandbox.workers": 1},
    }  # fmt: skip
    with pytest.warns(UserWarning, match="examples: 1 of 4 rows are left out: no 'wanted'"):
        found = evovpo.evolve(examples=frame, **arguments)
    assert found.solved_train
    assert found.best("abc") == "ABC"
    assert found.curve[-1][1] == 1.0
    html = found._repr_html_()
    assert "a_name.upper()" in html
    assert "<svg" in html
    stored = evovpo.read_run(found.id, found.store)
    assert (len(repr(stored)) < 200, "a_name.upper()" in stored._repr_html_()) == (True, True)
    assert (stored.curve, stored.evaluations) == (found.curve, 1)
    assert capsys.readouterr().err == ""
    with pytest.warns(UserWarning, match="no 'wanted'"):
        run = evovpo.evolve(examples=frame, progress=True, **arguments)
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"run {run.id}: solved; best mean reward 1, evaluations: 1"
    )
    with pytest.raises(evovpo.EvovpoError, match=r"solve\(1\)") as failed:
        found.best(1)
    with pytest.raises(evovpo.EvovpoError) as wrong:
        evovpo.evolve(examples=[("a", "b")], **arguments)
    assert wrong.value.__suppress_context__
    assert failed.value.__cause__ is None


def test_an_async_client_may_be_used_by_several_runs(tmp_path: Path) -> None:
    loops: list[asyncio.AbstractEventLoop] = []  # a client belongs to the event loop of its first use

    async def propose(messages: list[dict[str, str]], n: int) -> list[str]:
        loops.append(asyncio.get_running_loop())
        return ["```python\ndef solve(x):\n    return 'a'\n```"] * n

    for seed in (1, 2):
        found = evovpo.evolve(
            examples=[(("x",), "b")], proposer=propose, evaluations=3, seed=seed, store=tmp_path / "a.db"
        )
        assert found.evaluations == 3
    assert len({id(loop) for loop in loops}) == 1
    assert not loops[0].is_closed()


def test_a_wrong_program_is_applied_with_a_warning(tmp_path: Path) -> None:
    found = evovpo.evolve(
        examples=[(("x",), "a"), (("y",), "b")], evaluations=2, store=tmp_path / "w.db",
        proposer=lambda messages, n: ["```python\ndef solve(x):\n    return 'a'\n```"] * n,
    )  # fmt: skip
    with pytest.warns(UserWarning, match="solve is right on 1 of 2 training rows: do not trust all outputs"):
        assert found.best.apply([("y",)]) == ["a"]
