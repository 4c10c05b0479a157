"""The built-in models: their weights, and the text that they read and write.

The model for strings writes expressions from examples (`strings/`), the one for numeric rules formulas for
problems with a scorer (`formulas/`); `weights/` holds both. Nothing below this folder knows these languages.
"""

from pathlib import Path

BUILT_IN_MODEL = Path(__file__).parent / "weights" / "strings"
"""Folder of the built-in model, in Hugging Face format."""
FORMULA_MODEL = Path(__file__).parent / "weights" / "formulas"
"""Folder of the built-in model for numeric rules."""
