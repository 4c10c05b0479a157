"""Stand-alone programs that run untrusted code; standard library only.

They are started by path and never import evovpo, because every candidate inherits their memory. `server`
forks a child (`program`) per candidate. `watcher` starts a `zygote`, which imports an evaluator and forks an
`evaluation` per candidate.
"""
