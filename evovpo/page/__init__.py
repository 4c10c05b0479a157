"""The page in the browser: a read API over a store, its views, and the export of runs as one file.

Needs the extra `ui`, but for the export. Everything that a store holds is untrusted text: it travels as
values of JSON, never as a key or as HTML. Nothing is written.
"""
