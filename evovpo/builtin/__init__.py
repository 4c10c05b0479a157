"""The built-in models: their weights, and the text that they read and write.

`weights/strings/` writes string expressions from examples, `weights/formulas/` numeric rules for problems
with a scorer.
"""

from pathlib import Path

BUILT_IN_MODEL = Path(__file__).parent / "weights" / "strings"
"""Folder of the built-in model, in Hugging Face format."""
FORMULA_MODEL = Path(__file__).parent / "weights" / "formulas"
"""Folder of the built-in model for numeric rules."""
