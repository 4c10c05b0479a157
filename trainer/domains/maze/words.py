"""The mazes of the VPO paper in words, for any model: the grid as characters, and routes as moves.

Prompts and answers are as in VPO's release (arXiv 2605.22817). The model thinks briefly and writes each
route in its own tag, as UP, DOWN, LEFT and RIGHT. The domain `maze` has the same mazes and rewards.
"""

import re

from evovpo.errors import AnswerError
from evovpo.judging.measure import JudgedAnswer
from trainer.domains.domain import Domain, Row, Split
from trainer.domains.maze.generator import Maze, generate_maze
from trainer.domains.maze.maze_family import COMPONENTS, walk, walk_rewards
from trainer.domains.text.answers import chat, tagged, text_domain

MAX_TOKENS = (512, 1024)
_LETTERS = {"UP": "U", "DOWN": "D", "LEFT": "L", "RIGHT": "R"}
_TAGS = r"</?route"
_PROMPT = """\
This is a maze of 9 rows and 9 columns. S is the start, E the exit, # a wall, . floor, G gold, D a diamond, \
L lava, B the centre.

{grid}

A route starts at S and ends on E, within {budget} steps. A step is UP, DOWN, LEFT or RIGHT; one into a wall \
leaves you in place. A route is good if it reaches the exit, collects gold, collects diamonds, and avoids \
lava; no route within the budget collects both gold and diamonds."""
_ONE = "Think briefly, then write one route in this form:\n<route>RIGHT DOWN DOWN</route>"
_SEVERAL = (
    "Think briefly, then write {} genuinely different routes, each valid on its own and within budget, in "
    "this form:\n{}"
)
_EXAMPLES = ("RIGHT DOWN DOWN", "DOWN DOWN RIGHT", "DOWN RIGHT DOWN")


def open_words(name: str, split: Split, count: int, answers: int) -> Domain:
    """Return the domain of the first `count` mazes of a split. The domain `maze` has the same mazes."""
    mazes = [generate_maze(f"{split}-0-{number}") for number in range(count)]

    def read(text: str, row: Row) -> JudgedAnswer:
        maze = mazes[row["maze"]]
        found = walk(maze, read_moves(text))
        return JudgedAnswer(found.moves, walk_rewards(maze, found))

    prompts = [chat(words_of(maze, answers)) | {"maze": number} for number, maze in enumerate(mazes)]
    return text_domain(name, COMPONENTS, answers, prompts, read, MAX_TOKENS, part=_route)


def words_of(maze: Maze, answers: int) -> str:
    tags = [_EXAMPLES[place % len(_EXAMPLES)] for place in range(answers)]
    lines = [f"<route_{number}>{moves}</route_{number}>" for number, moves in enumerate(tags, 1)]
    form = _ONE if answers == 1 else _SEVERAL.format(answers, "\n".join(lines))
    return _PROMPT.format(grid="\n".join(maze.rows), budget=maze.budget) + f"\n\n{form}"


def read_moves(text: str) -> str:
    """Return the moves (U, D, L, R) of a route in words. Raises `AnswerError` for an unknown word."""
    words = re.split(r"[\s,]+", text.strip())
    if strange := [word for word in words if word not in _LETTERS]:
        raise AnswerError(f"{strange[0]:.20}: expected UP, DOWN, LEFT and RIGHT alone")
    return "".join(_LETTERS[word] for word in words)


def _route(text: str, number: int, answers: int) -> str:
    return tagged(text, "route" if answers == 1 else f"route_{number}", _TAGS)
