"""The trainer's commands, which an entry point adds to the command `evovpo`.

This package imports nothing heavy, so that `evovpo --help` stays fast. The other dependencies are installed
by `pip install 'evovpo[train]'`.
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
