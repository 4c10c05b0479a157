"""The `evovpo` command: reads arguments, calls other packages, prints.

Slow imports are made inside the commands, so that `--help` is instant.
"""

from evovpo.cli.main import app, main, mount_commands

__all__ = ["app", "main", "mount_commands"]
