"""The `ask` and `tell` interface: evovpo chooses prompts; your code samples and evaluates programs."""

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from evovpo.api.evolve import merged_settings
from evovpo.api.frames import is_frame
from evovpo.api.interrupts import short_errors
from evovpo.api.own_proposer import make_rollouts
from evovpo.api.problems import Examples, problem_of_examples
from evovpo.builtin.strings.joining import join_language
from evovpo.config import Config
from evovpo.errors import ConfigError
from evovpo.judging.evaluator import checked_rewards
from evovpo.problem.folder import load_problem
from evovpo.problem.suites import resolve_problem
from evovpo.runs.choices import choose_format
from evovpo.runs.group import GroupJudge
from evovpo.search.search import SearchState as _Search
from evovpo.types import Evaluation, Problem, Program, Prompt, Rollout, Sampling, Status


class Search:
    """A search that your own code drives: your code samples completions and evaluates their programs.

        search = Search(examples=[(("Ada Lovelace",), "A. Lovelace")], evaluations=100)
        while (prompt := search.ask()) is not None:
            texts = my_model(prompt.messages, prompt.rollouts) if prompt.has_model else []
            rewards = {source: my_judge(source) for source in search.programs(prompt, texts)}
            search.tell(prompt, texts, rewards)
        print(search.best)

    If `prompt.has_model` is false, the prompt already contains programs. Give either `examples` or `problem`
    (a folder, the name of a bundled problem, or a DataFrame of examples). `examples` and `settings` are as
    for `evolve`. The same seed and the same calls in the same order give the same search.
    """

    @short_errors
    def __init__(
        self,
        problem: str | Any = None,
        *,
        examples: Examples | None = None,
        seed_program: str | None = None,
        entry: str = "solve",
        statement: str = "",
        evaluations: int = 1000,
        seed: int = 0,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        if (problem is None) == (examples is None):
            raise ConfigError("expected problem or examples; give one of them")
        given = {"proposer.name": "own", "search.evaluations": evaluations}
        config = Config.load(None, merged_settings(given, settings))
        if examples is not None or is_frame(problem):
            rows = problem if examples is None else examples
            doubts: list[str] = []
            self.problem: Problem = problem_of_examples(rows, (), seed_program, entry, statement, doubts)
            for doubt in doubts:
                warnings.warn(doubt, stacklevel=3)
        else:
            self.problem = load_problem(resolve_problem(str(problem)))
        made_by, language = choose_format(self.problem, config), join_language(self.problem)
        self._search = _Search(self.problem, config.search, made_by, "own", seed, language)

    @property
    def best(self) -> tuple[str, dict[str, float]] | None:
        """The best program so far, as (source, {component: reward}); None before the first call of `tell`."""
        best = self._search.standing.best
        if best is None:
            return None
        names = [objective.name for objective in self.problem.objectives]
        return best.program.source, dict(zip(names, best.evaluation.rewards or (), strict=True))

    @property
    def is_solved(self) -> bool:
        """True if some program has full reward in every component."""
        return self._search.standing.is_solved

    @short_errors
    def ask(self) -> Prompt | None:
        """Return the next prompt, or None when the budget is used up.

        If `prompt.has_model` is true, sample `prompt.rollouts` texts for `prompt.messages`. If it is false,
        sample nothing: the prompt already contains programs. You may answer prompts in any order.
        """
        return self._search.ask()

    @short_errors
    def programs(self, prompt: Prompt, texts: Sequence[str] = ()) -> list[str]:
        """Return the source of each new program in `texts`, or in a prompt that contains programs."""
        group = GroupJudge(self._search, partial(self._judged, {}))
        _, new = group.read(prompt, self._replies(prompt, texts))
        return [program.source for program in new.values()]

    @short_errors
    def tell(
        self, prompt: Prompt, texts: Sequence[str], rewards: Mapping[str, Mapping[str, float] | None]
    ) -> None:
        """Report the replies to a prompt; `rewards` is {program source: {component: reward in [0, 1]}}.

        For a failed program, give None, which counts as rewards of 0. A repeated call changes nothing.
        Raises `ConfigError` if the rewards of a program are missing or outside [0, 1].
        """
        replies = self._replies(prompt, texts)
        group = GroupJudge(self._search, partial(self._judged, rewards))
        for tell in group.tells(prompt, replies, group.find_at_once(prompt, replies)):
            self._search.tell(tell)

    def _replies(self, prompt: Prompt, texts: Sequence[str]) -> list[Rollout | None]:
        count = prompt.rollouts if prompt.has_model else 0
        return [*make_rollouts(prompt, range(count), list(texts), Sampling())] or [None]

    def _judged(self, told: Mapping[str, Mapping[str, float] | None], program: Program) -> Evaluation:
        if program.source not in told:
            raise ConfigError(
                f"rewards: expected one entry for each of search.programs(prompt, texts), found none for\n"
                f"{program.source:.300}\ngive its rewards, or None for a program that failed"
            )
        given, names = told[program.source], self.problem.objectives
        rewards = (0.0,) * len(names) if given is None else checked_rewards(given, names, "rewards")
        status = Status.ERROR if given is None else Status.OK
        return Evaluation(program.id, self.problem.version, status, rewards, "", 0.0, "")
