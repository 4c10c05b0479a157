"""The web page of a store (database of runs): a read API, the views, and the export of a run as HTML.

The server needs the extra `ui`; the export does not. All text of a store is untrusted: it is sent as JSON
values, never as JSON keys or HTML. The store is only read.
"""
