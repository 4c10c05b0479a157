"""Small random mutations of string expressions."""

from evovpo.builtin.strings.grammar import Tree, paths, subtree, type_of, with_subtree
from evovpo.builtin.strings.sampler import FOUND_PATTERNS, REMOVED_PATTERNS, Sampler


def mutate(sampler: Sampler, tree: Tree) -> Tree:
    """Return `tree` with one small change: a conditional reduced to one branch, or a new random subtree."""
    if tree[0] == "if" and sampler.rng.random() < 0.4:
        branch: Tree = tree[1] if sampler.rng.random() < 0.5 else tree[3]
        return branch
    path = sampler.rng.choice(list(paths(tree)))
    return with_subtree(tree, path, _redraw(sampler, subtree(tree, path)))


def _redraw(sampler: Sampler, node: Tree) -> Tree:
    kind = type_of(node)
    if kind == "T":
        return sampler.literal() if sampler.rng.random() < 0.6 else sampler.glue()
    if kind == "P":
        return ("pat", sampler.rng.choice(REMOVED_PATTERNS + FOUND_PATTERNS))
    if node[0] == "int":
        near = node[1] + sampler.rng.choice((-2, -1, -1, 1, 1, 2))
        return ("int", near if sampler.rng.random() < 0.6 else sampler.rng.choice((0, 1, 2, 3, -1, -2)))
    draw = sampler.rng.random()
    if kind == "S":
        if draw < 0.25 and node[0] != "arg":
            below = [child for child in node[1:] if type_of(child) == "S"]
            if below:
                return sampler.rng.choice(below)
        if draw < 0.5:
            return _wrap(sampler, node)
        return sampler.string(sampler.rng.choice((0, 1, 1, 2)))
    if kind == "B":
        return sampler.test()
    if kind == "L":
        return sampler.plain_list(1)
    if kind == "W":
        return ("w_item", ("int", 0)) if draw < 0.5 else ("w_capitalize",)
    return sampler.number(1)


def _wrap(sampler: Sampler, node: Tree) -> Tree:
    for _ in range(4):
        outer = sampler.string(1)
        if outer[0] in ("concat", "str", "arg"):
            continue
        for index, child in enumerate(outer[1:], start=1):
            if child[0] == "arg":
                return (*outer[:index], node, *outer[index + 1 :])
            if type_of(child) == "L":
                return (*outer[:index], ("words", node), *outer[index + 1 :])
    return ("strip", node)
