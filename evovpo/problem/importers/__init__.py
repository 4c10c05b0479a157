"""Tasks of public programming benchmarks, from a user's own copy of their files, as problem folders."""
