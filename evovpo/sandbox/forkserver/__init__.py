"""Stand-alone programs that run untrusted code; standard library only.

They are started by path and never import evovpo, because every candidate inherits their memory. `server`
forks a child per candidate, a `program`. `watcher` starts a `zygote`, which imports an evaluator and forks an
`evaluation` per candidate.
"""
