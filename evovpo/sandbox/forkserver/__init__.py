"""Stand-alone programs that run untrusted code with the standard library only.

They are started by path and never import evovpo, because every candidate inherits their memory. `server`
forks a child (`program`) for each candidate. `watcher` starts a `zygote`, which imports an evaluator and
forks an `evaluation` for each candidate.
"""
