"""The browser page of a store: a read API, its views, and the export of a run as one HTML file.

The server needs the extra `ui`; the export does not. All text of a store is untrusted: it is sent as JSON
values, never as JSON keys or HTML. The store is only read.
"""
