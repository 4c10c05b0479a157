"""The first schema, with which older stores begin; new ones get `evovpo/store/schema.py` as it is."""

revision = "0001"
down_revision = None
