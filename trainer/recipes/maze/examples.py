"""Routes of mixed quality, as supervised data for the start model.

The start model shall know the format and find the exit now and then, by many ways; it shall not be a
solver. So a route heads for the exit directly, over some items of one zone, or over cells drawn at
random; it avoids lava or does not, slips off its way with some probability, and is cut where the
budget is spent, which is how routes fail here.
"""

from random import Random

from trainer.domains.maze.generator import CELLS, DIAMOND, GOLD, LAVA, NEIGHBOURS, WALL, Maze, distances

_SLIPS = (0.1, 0.2, 0.3, 0.5)
_ERRANDS = ("direct", "gold", "diamond", "wander")
_ERRAND_WEIGHTS = (6, 1, 1, 24)
_MOST_DETOURS = 5
_MOST_ITEMS = 2
_MAX_ATTEMPTS = 20


class RouteSampler:
    """Draws routes through one maze; remembers the distance maps that they share."""

    def __init__(self, maze: Maze) -> None:
        self._maze = maze
        self._maps: dict[tuple[int, str], list[int]] = {}

    def draw(self, rng: Random) -> tuple[int, ...]:
        """Return the cells that a route steps to: at most the budget, ending at the exit if it is reached."""
        maze = self._maze
        blocked = rng.choice((WALL, WALL + LAVA))
        slip = rng.choice(_SLIPS)
        cell = maze.start
        taken: list[int] = []
        for target in [*self._waypoints(rng), maze.exit]:
            steps_left = self._map(target, blocked)
            while cell != target:
                if steps_left[cell] < 0:  # Target or walker is enclosed by lava.
                    steps_left = self._map(target, WALL)
                beside = [near for near in NEIGHBOURS[cell] if maze.grid[near] != WALL]
                if rng.random() >= slip:
                    nearest = min(steps_left[near] for near in beside if steps_left[near] >= 0)
                    beside = [near for near in beside if steps_left[near] == nearest]
                cell = rng.choice(beside)
                taken.append(cell)
                if cell == maze.exit or len(taken) == maze.budget:
                    return tuple(taken)
        raise AssertionError("unreachable: the last target is the exit")

    def _waypoints(self, rng: Random) -> list[int]:
        maze = self._maze
        errand = rng.choices(_ERRANDS, _ERRAND_WEIGHTS)[0]
        if errand == "direct":
            return []
        if errand == "wander":
            free = [cell for cell in range(CELLS) if maze.grid[cell] != WALL]
            return rng.sample(free, rng.randint(1, _MOST_DETOURS))
        items = maze.cells(GOLD if errand == "gold" else DIAMOND)
        return rng.sample(items, rng.randint(1, min(_MOST_ITEMS, len(items))))

    def _map(self, target: int, blocked: str) -> list[int]:
        key = (target, blocked)
        if key not in self._maps:
            self._maps[key] = distances(self._maze.grid, target, blocked)
        return self._maps[key]


def draw_chain(sampler: RouteSampler, answers: int, rng: Random) -> list[tuple[int, ...]]:
    """Return `answers` different routes through the sampler's maze, drawn one after another."""
    chain: list[tuple[int, ...]] = []
    for _ in range(_MAX_ATTEMPTS * answers):
        route = sampler.draw(rng)
        if route not in chain:
            chain.append(route)
        if len(chain) == answers:
            return chain
    raise AssertionError(f"no {answers} different routes in {_MAX_ATTEMPTS * answers} draws")
