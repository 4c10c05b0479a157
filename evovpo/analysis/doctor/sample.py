"""What the doctor looks at: the rewards of judged groups, with the components that a trainer sees."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from evovpo.analysis.grouping import Floats, component_names, grouped
from evovpo.types import Group, Problem


class Sample(NamedTuple):
    """What was judged, with the components that a trainer sees (the problem's groups are applied)."""

    names: tuple[str, ...]
    """Of the D components."""
    members: tuple[tuple[str, ...], ...]
    """The objectives that each component is the mean of."""
    pools: tuple[tuple[Floats, ...], ...]
    """P prompts, of each its chains without sandbox faults, of each the rewards `[m, D]` of its answers:
    zeros where an answer is unreadable or repeats an earlier one of its chain."""
    different_N_D: Floats  # noqa: N815
    """The rewards of each program that occurs, once."""
    answers: int
    """Asked for in one completion (the most, where prompts differ)."""
    slots: int
    """Answers asked for in all chains."""
    unreadable: int
    """Of these, without a program."""
    repeated: int
    """Of these, with a program that the sample holds already."""
    faulty: int
    """Chains left out because the sandbox failed."""


def take_sample(problem: Problem, groups: Iterable[Group]) -> Sample:
    """Return the sample that judged groups of a problem hold; chains with a sandbox fault are left out."""
    pools: list[tuple[Floats, ...]] = []
    different: dict[str, Floats] = {}
    slots = unreadable = repeated = faulty = answers = 0
    for group in groups:
        chains = []
        answers = max(answers, group.prompt.answers)
        for rows, programs, is_valid in zip(
            group.rewards_G_M_D, group.programs_G_M, group.valid_G, strict=True
        ):
            if not is_valid:
                faulty += 1
                continue
            rewards_M_D = grouped(problem, rows)  # noqa: N806
            chains.append(rewards_M_D)
            slots += len(programs)
            for program, rewards in zip(programs, rewards_M_D, strict=True):
                unreadable += program is None
                repeated += program in different
                if program is not None:
                    # A repeat within its chain is a row of zeros, whatever the program earns.
                    different[program] = np.maximum(rewards, different.get(program, 0.0))
        if chains:
            pools.append(tuple(chains))
    names = component_names(problem)
    own = problem.groups or tuple((index,) for index in range(len(problem.objectives)))
    return Sample(
        names=names,
        members=tuple(tuple(problem.objectives[index].name for index in group) for group in own),
        pools=tuple(pools),
        different_N_D=np.array(list(different.values())).reshape(len(different), len(names)),
        answers=answers,
        slots=slots,
        unreadable=unreadable,
        repeated=repeated,
        faulty=faulty,
    )
