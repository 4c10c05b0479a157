"""The `evovpo` command: reads arguments, calls the parts, prints. No logic of its own.

One file for each panel of `evovpo --help`; everything but typer is imported inside the commands, so that
`--help` is instant and no command loads more than it uses.
"""

from evovpo.cli.main import app, main, mount_commands

__all__ = ["app", "main", "mount_commands"]
