"""Stand-alone programs that run untrusted code; standard library only.

They are started by path and never import evovpo: whatever is in their memory is in every candidate's too.
`server` forks a child per candidate, a `program`; `watcher` has a `zygote`, which imported an evaluator, fork
an `evaluation` for each candidate.
"""
