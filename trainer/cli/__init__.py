"""The trainer's commands, which an entry point adds to the command `evovpo`.

This package must not import large libraries such as torch, so that `evovpo --help` stays fast.
"""

import typer

from trainer.cli.loop import loop
from trainer.cli.measure import measure
from trainer.cli.policies import list_policies, retrain, rollback
from trainer.cli.study import study
from trainer.cli.train import train

app = typer.Typer(rich_markup_mode="rich")
for _name, _command in (
    ("train", train),
    ("measure", measure),
    ("retrain", retrain),
    ("policies", list_policies),
    ("rollback", rollback),
    ("loop", loop),
    ("study", study),
):
    app.command(_name, rich_help_panel="Training")(_command)
