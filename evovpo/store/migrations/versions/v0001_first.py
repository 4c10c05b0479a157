"""The first schema version, for old stores. `evovpo/store/schema.py` creates the tables of new stores."""

revision = "0001"
down_revision = None
