"""Strategies, which choose what each ask shows: islands, and the baselines i.i.d. sampling and best-of-N."""

from evovpo.search.memory import Failures
from evovpo.search.population import Population
from evovpo.search.standing import Standing
from evovpo.search.strategies.iid import IndependentSampling
from evovpo.search.strategies.islands import Islands
from evovpo.search.strategies.strategy import Strategy


def make_strategy(population: Population, failures: Failures, standing: Standing) -> Strategy:
    """Return the strategy that the configuration names, which reads the state it is given."""
    config = standing.config
    if config.strategy == "islands":
        return Islands(population, failures, standing)
    # A prompt that shows no program says too little where only the evaluator knows what to define.
    return IndependentSampling(
        shows_start=config.strategy == "best-of-n" or standing.problem.evaluator is not None
    )
