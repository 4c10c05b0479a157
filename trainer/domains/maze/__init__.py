"""The maze of the VPO paper: generator, rewards, a small start model, and the adapter for studies."""

from pathlib import Path

MAZE_MODEL = Path(__file__).parent / "model"
