"""Rows of a DataFrame in, a function out, and the function applied to a DataFrame. Needs pandas."""

import pandas

import evovpo

people = pandas.DataFrame(
    {
        "name": ["Ada Lovelace", "Alan Turing", "Grace Hopper", None, "Kurt Gödel", "Emmy Noether"],
        "short": ["A. Lovelace", "A. Turing", "G. Hopper", "", None, None],
    }
)
run = evovpo.evolve(
    examples=people,  # the last column is the result, or output=NAME; rows without one are left out
    evaluations=300,
    store="people.db",
)
print(run.ending)
print(run.best("Edsger Dijkstra"))

people["short"] = run.best.apply(people)  # the columns are found by name
print(people)

again = evovpo.read_run(run)  # by the result, or by its id and store
print(again.best.source == run.best.source)
