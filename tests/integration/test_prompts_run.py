"""Prompts of instruction models in whole runs, and the command that shows them."""

import re
from pathlib import Path

from scripted_proposer import ScriptedProposer
from shell import Shell

from evovpo.config import Config
from evovpo.problem.folder import load_problem
from evovpo.problem.suites import new_problem
from evovpo.prompts.program_text import shown_rewards
from evovpo.prompts.replies import delimiter
from evovpo.runs.replay import verify
from evovpo.runs.request import RunRequest
from evovpo.runs.start_resume import start
from evovpo.store import Store
from evovpo.types import Prompt, PromptKind, Tell

SETTINGS = (
    "proposer.name=scripted", "prompt.style=diff", "search.evaluations=32", "search.rollouts=2",
    "search.answers=2", "search.in_flight=1", "search.islands=1",
    "search.ways={climb=0.2, repair=0.2, combine=0.5, fresh=0.1}", "search.attempts=3", "sandbox.workers=1",
)  # fmt: skip


def write(prompt: Prompt, index: int) -> str:
    """Return a chain: an edit of the return line (each third one fails), and one of no line that is there."""
    text = prompt.messages[-1].content
    line = re.findall(r"^    return .*$", text, re.MULTILINE)[0]
    value = f"x * 0.{prompt.sequence}{index} + 0.3" if (prompt.sequence + index) % 3 else "x / 0"
    return (
        f"{delimiter(1)}\n<<<<<<< SEARCH\n{line}\n=======\n    return {value}\n>>>>>>> REPLACE\n"
        f"{delimiter(2)}\n<<<<<<< SEARCH\nnot there\n=======\n>>>>>>> REPLACE\n"
    )


def test_a_run_by_edits_tells_models_everything_and_replays(tmp_path: Path) -> None:
    problem = load_problem(new_problem(tmp_path / "mine", "score"))
    config = Config.load(None, Config.read_changes(SETTINGS))
    with Store.open(f"sqlite:///{tmp_path}/runs.db") as store:
        outcome = start(RunRequest(problem, config, run_id="r"), store, ScriptedProposer(write))
        history = list(store.history("r"))
        verify("r", store)
    assert outcome.evaluations == 32
    prompts = [event for event in history if isinstance(event, Prompt) and event.messages]
    kinds = {prompt.kind for prompt in prompts}
    assert kinds >= {PromptKind.MUTATE, PromptKind.REPAIR, PromptKind.CROSSOVER}
    judged = {
        judged.evaluation.program_id: judged.evaluation
        for event in history
        if isinstance(event, Tell)
        for judged in event.judged
        if judged.evaluation is not None
    }
    shown = [(prompt, judged[parent.program_id]) for prompt in prompts for parent in prompt.parents]
    assert shown
    for prompt, evaluation in shown:
        text = prompt.messages[-1].content
        assert shown_rewards(problem, evaluation) in text
        assert evaluation.feedback in text
    for told in (
        "division by zero",
        "came to nothing: edit 1: its SEARCH text is not in the program",
    ):
        assert any(told in prompt.messages[-1].content for prompt in prompts), told


def test_the_command_shows_what_a_run_would_ask(evovpo: Shell, tmp_path: Path) -> None:
    evovpo("new", "mine", "--kind", "score")
    written = evovpo("check", "--write-prompts", "templates")
    assert (written.code, len(list((tmp_path / "templates").iterdir()))) == (0, 14)
    (tmp_path / "templates" / "mutate.txt").write_text("Mine: {rewards}")
    settings = ["--set", "proposer.name=openai", "--set", "prompt.templates=templates"]
    shown = evovpo("check", "mine", "--prompts", *settings)
    assert "----- root, user -----\nApproximate" in shown.out
    assert "----- mutate, user -----\nMine: Rewards: small 0.584385, large 0.414189." in shown.out
    again = evovpo("check", "--write-prompts", "templates")
    assert (again.code, "without templates" in again.err) == (2, True)
    assert evovpo("check").code == 2
