"""Stand-alone programs that run untrusted code; standard library only.

They are started by path in an environment built from nothing and never import evovpo: whatever is in
their memory is in every candidate's memory too. They hold no answers, no scorer and no other
candidate's data.

`server` forks a child per candidate, which is a `program`; `watcher` has a `zygote`, which imported an
evaluator, fork an `evaluation` for each candidate.
"""
