"""The first schema, where upgrades start; new stores are created from `evovpo/store/schema.py`."""

revision = "0001"
down_revision = None
