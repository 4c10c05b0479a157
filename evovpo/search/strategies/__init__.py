"""Ways to choose what each ask shows: islands, baselines without memory, a chain, a beam, a tree.

One file each. Programs that fail are never chosen but by islands, other than starting programs.
"""

from evovpo.search.memory import Failures
from evovpo.search.population import Population
from evovpo.search.standing import Standing
from evovpo.search.strategies.beam import Beam
from evovpo.search.strategies.iid import IndependentSampling
from evovpo.search.strategies.islands import Islands
from evovpo.search.strategies.puct import Puct
from evovpo.search.strategies.strategy import Strategy


def make_strategy(population: Population, failures: Failures, standing: Standing) -> Strategy:
    """Return the strategy that the configuration names, which reads the state it is given."""
    config = standing.config
    match config.strategy:
        case "islands":
            return Islands(population, failures, standing)
        case "sequential":
            return Beam(1)
        case "beam":
            return Beam(config.beam)
        case "puct":
            return Puct()
    # A prompt that shows no program says too little where only the evaluator knows what to define.
    return IndependentSampling(
        shows_start=config.strategy == "best-of-n" or standing.problem.evaluator is not None
    )
