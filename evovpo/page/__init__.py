"""The page in the browser: a read API over a store, its views, and the export of runs as one file.

Needs the extra `ui`, except for the export. All text of a store is untrusted: it is sent as JSON values,
never as keys or HTML. The store is only read.
"""
