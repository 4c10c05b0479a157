"""A function from rows of examples, written by the model that comes with the package."""

import evovpo

run = evovpo.evolve(
    examples=[
        (("Ada Lovelace",), "A. Lovelace"),
        (("Alan Turing",), "A. Turing"),
        (("Grace Hopper",), "G. Hopper"),
    ],
    heldout=[(("Emmy Noether",), "E. Noether")],  # only reported: the search never sees them
    evaluations=300,
    seed=0,
    store="sqlite:///names.db",
)
print(run.best.source)
print("right on the examples:", run.solved_train, "and on the rest:", run.solved_heldout)
