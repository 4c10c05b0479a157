"""What a store knows of a run: programs, reward vectors, where each came from, and rows for a table."""

import evovpo

evovpo.evolve("strings/date-to-iso", evaluations=100, store="dates.db")

for row in evovpo.list_runs("dates.db"):
    print(row.run, row.problem, row.status, row.best_mean_reward)

run = evovpo.read_run("latest", "dates.db")
best = max(run.programs, key=lambda program: sum(program.rewards.values()))
for program in run.lineage(best.id):
    print(program.kind, program.rewards)
    print(program.source)

rows = run.rows()  # pandas.DataFrame(rows), polars.DataFrame(rows)
print(len(rows), "programs with the columns", list(rows[0]))
