"""The programs that run beside or around untrusted code; stand-alone, standard library only.

They are started by path in an environment built from nothing and never import evovpo: whatever is in
their memory is in every candidate's memory too. They hold no answers, no scorer and no other
candidate's data.

`kernel` wraps the system calls. `server` forks one child per candidate, `child` is what happens after
the fork, and `program` runs the candidate; `calls` lets it answer calls instead. `watcher` runs one
evaluator together with its candidate: it forks `evaluation`, counts and ends its processes by `processes`,
and `metrics` is how the result becomes JSON. `strict_json` reads what an untrusted process wrote.
"""
