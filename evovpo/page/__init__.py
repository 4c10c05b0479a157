"""The web page of a store (database of runs): a read API, the views, and the export of a run as HTML.

Text from a store is untrusted. It is sent as JSON values, never as JSON keys or HTML. The store is only read.
"""
