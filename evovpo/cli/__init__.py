"""The `evovpo` command: reads arguments, calls the parts, prints. No logic of its own.

A file holds a panel of `evovpo --help`, or half of one; everything but typer is imported inside the commands,
so that `--help` is instant and no command loads more than it uses.
"""

from evovpo.cli.main import app, main, mount_commands

__all__ = ["app", "main", "mount_commands"]
