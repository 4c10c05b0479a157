"""The program that forks one child per candidate; stand-alone, standard library only.

It is started by path in an environment built from nothing and never imports evovpo: whatever is in
its memory is in every candidate's memory too. It holds no answers, no scorer and no other candidate's
data; it does not even read the candidate, which the child takes from a shared memory file.

`kernel` wraps the system calls, `server` is the loop, `child` is what happens after the fork.
"""
