"""The maze of the VPO paper: generator, prompts, rewards, searches, and a small start model."""

from pathlib import Path

MAZE_MODEL = Path(__file__).parent / "model"
