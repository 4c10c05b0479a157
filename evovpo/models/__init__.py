"""The built-in model: its weights (`strings/`) and the text it reads and writes."""

from pathlib import Path

BUILT_IN_MODEL = Path(__file__).parent / "strings"
"""Folder of the built-in model, in Hugging Face format."""
