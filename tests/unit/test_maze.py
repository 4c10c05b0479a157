"""The maze: its generator keeps every published condition, and its rewards are those of the paper."""

from random import Random

import pytest
from mazes import route_rewards

from trainer.domains.maze.generator import CELLS, MAX_BUDGET, MOVES, SIZE, Maze, distances, generate_maze

MAZES = [generate_maze(f"test-{number}") for number in range(60)]

BY_HAND = Maze("S.LG.....#..G...........................B...................L..........D........E", budget=20)
GOLDEN = Maze("DDD..#..SD#.......D..#.........L........B.......#.......L.L.L....#......E.....GGG", budget=25)
"""What `generate_maze("golden")` gave first; another result would change every split."""


def slow_distance(maze: Maze, source: int, target: int, blocked: str) -> float:
    """Shortest path of at most 40 steps, by relaxing all cells again and again, on coordinates."""
    steps = {divmod(cell, SIZE): float("inf") for cell in range(CELLS) if maze.grid[cell] not in blocked}
    steps[divmod(source, SIZE)] = 0.0
    for _ in range(40):
        for row, column in steps:
            beside = [(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)]
            nearest = min(steps.get(place, float("inf")) for place in beside)
            steps[row, column] = min(steps[row, column], nearest + 1)
    return steps[divmod(target, SIZE)]


def slow_rewards(grid: list[str], budget: int, moves: str) -> tuple[float, ...]:
    """The four components, from the published sentences: walk on coordinates, count by place."""
    kinds = {(row, column): kind for row, line in enumerate(grid) for column, kind in enumerate(line)}
    (row, column), *_ = [place for place, kind in kinds.items() if kind == "S"]
    been, taken = [(row, column)], 0
    while kinds[row, column] != "E":
        if taken == len(moves) or taken == budget:
            return (0.0, 0.0, 0.0, 0.0)
        down, right = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}[moves[taken]]
        taken += 1
        if kinds.get((row + down, column + right), "#") != "#":
            row, column = row + down, column + right
        been.append((row, column))
    shares = []
    for wanted in "GDL":
        places = [place for place, kind in kinds.items() if kind == wanted]
        shares.append(len([place for place in places if place in been]) / len(places))
    gold, diamond, lava = shares
    return (1.0, gold, diamond, 1.0 - lava)


def random_moves(maze: Maze, rng: Random) -> str:
    """Moves that drift towards the exit, so that many routes arrive."""
    down = "D" if maze.exit > maze.start else "U"
    right = "R" if maze.exit % SIZE > maze.start % SIZE else "L"
    return "".join(rng.choice(MOVES + 6 * (down + right)) for _ in range(rng.randint(10, 40)))


def test_the_generator_still_gives_the_maze_that_it_gave() -> None:
    assert generate_maze("golden") == GOLDEN


def test_start_and_exit_lie_on_opposite_corners_items_near_the_others_and_lava_inside() -> None:
    corners = {0: 80, 80: 0, 8: 72, 72: 8}
    assert {maze.start for maze in MAZES} == set(corners)
    gold_corners = set()
    for maze in MAZES:
        assert (maze.exit, maze.cells("B")) == (corners[maze.start], [40])
        lava = maze.cells("L")
        assert 3 <= len(lava) <= 5
        assert all(2 <= cell // SIZE <= 6 and 2 <= cell % SIZE <= 6 for cell in lava)
        others = {0, 8, 72, 80} - {maze.start, maze.exit}
        homes = []
        for kind in "GD":
            items = maze.cells(kind)
            assert 3 <= len(items) <= 5
            close = [corner for corner in others if all(manhattan(cell, corner) <= 2 for cell in items)]
            homes += close
        assert len(homes) == 2
        assert set(homes) == others
        gold_corners.add(homes[0])
    assert gold_corners == {0, 8, 72, 80}


def manhattan(one: int, other: int) -> int:
    return abs(one // SIZE - other // SIZE) + abs(one % SIZE - other % SIZE)


def test_walls_are_what_prim_and_eighteen_to_twenty_eight_openings_leave() -> None:
    counts = {maze.grid.count("#") for maze in MAZES}
    assert min(counts) >= 81 - 25 - 24 - 28
    assert max(counts) <= 81 - 25 - 24 - 18
    assert len(counts) > 5
    rooms = [row * SIZE + column for row in range(0, SIZE, 2) for column in range(0, SIZE, 2)]
    for maze in MAZES:
        assert all(maze.grid[room] != "#" for room in rooms)
        assert all(
            slow >= 0 for cell, slow in enumerate(distances(maze.grid, maze.start)) if maze.grid[cell] != "#"
        )


def test_the_budget_is_the_longer_way_over_a_zone_corner_plus_seven() -> None:
    for maze in MAZES[:12]:
        others = {0, 8, 72, 80} - {maze.start, maze.exit}
        ways = [
            slow_distance(maze, maze.start, corner, "#") + slow_distance(maze, corner, maze.exit, "#")
            for corner in others
        ]
        assert maze.budget == max(ways) + 7
        assert maze.budget <= MAX_BUDGET
        assert slow_distance(maze, maze.start, maze.exit, "#L") <= maze.budget


def test_no_route_within_the_budget_takes_gold_and_diamonds() -> None:
    for maze in MAZES:
        states = frontier = {(maze.start, False, False)}
        for _ in range(maze.budget):
            frontier = {
                (near, has_gold or maze.grid[near] == "G", has_diamond or maze.grid[near] == "D")
                for cell, has_gold, has_diamond in frontier
                if maze.grid[cell] != "E"
                for near in range(CELLS)
                if manhattan(near, cell) == 1 and maze.grid[near] != "#"
            } - states
            states = states | frontier
        ends = {state[1:] for state in states if state[0] == maze.exit}
        assert {(True, False), (False, True)} <= ends
        assert (True, True) not in ends


@pytest.mark.parametrize(
    ("moves", "rewards"),
    [
        # Lava at (0, 2), both gold cells, then down column 3 and along the last row.
        ("RRR" + 8 * "D" + 5 * "R", (1, 1, 0, 0.5)),
        # Along the first row: lava, one gold of two; down the last column: the diamond.
        (8 * "R" + 8 * "D", (1, 0.5, 1, 0.5)),
        # One gold of two, then column 4 over B.
        ("RRRR" + 8 * "D" + "RRRR", (1, 0.5, 0, 0.5)),
        # Neither lava cell nor item.
        ("RDDDDDDD" + "D" + 7 * "R", (1, 0, 0, 1)),
        # Back and forth over the same gold and lava counts once.
        ("RRRLR" + 8 * "D" + 5 * "R", (1, 1, 0, 0.5)),
        # A wall below the start and the edge above it: two steps spent, nothing else.
        ("DURRR" + 8 * "D" + 5 * "R", (1, 1, 0, 0.5)),
        # What comes after the exit is not walked.
        (8 * "R" + 8 * "D" + "UUUULLLL", (1, 0.5, 1, 0.5)),
        # Twenty steps fit, twenty-one do not.
        ("DUDURRR" + 8 * "D" + 5 * "R", (1, 1, 0, 0.5)),
        ("DUDUDRRR" + 8 * "D" + 5 * "R", (0, 0, 0, 0)),
        # All gold, but the exit is not reached.
        ("RRRD", (0, 0, 0, 0)),
        ("", (0, 0, 0, 0)),
    ],
)
def test_rewards_worked_out_by_hand(moves: str, rewards: tuple[float, ...]) -> None:
    assert route_rewards(BY_HAND, moves) == rewards


def test_rewards_agree_with_the_slow_version() -> None:
    rng = Random(1)
    arrived = 0
    for maze in MAZES * 8:
        moves = random_moves(maze, rng)
        expected = slow_rewards(list(maze.rows), maze.budget, moves)
        assert route_rewards(maze, moves) == pytest.approx(expected)
        arrived += expected[0] == 1
    assert arrived > 50
