"""The commands `evovpo store upgrade`, `copy` and `prune`."""

from typing import Annotated

import typer

from evovpo.cli import options
from evovpo.cli.options import argument, flag
from evovpo.cli.terminal import open_store, print_json, say, store_option
from evovpo.errors import StoreError

app = typer.Typer(help="Maintain the database of runs.", no_args_is_help=True)


@app.command("upgrade")
def upgrade_store(
    store_url: Annotated[str | None, argument("URL", "Database.", "sqlite:///evovpo.db")] = None,
) -> None:
    """Upgrade the database of an older version; all rows are kept.

    [dim]Example:[/dim]  evovpo store upgrade sqlite:///evovpo.db
    """
    from evovpo.store import upgrade

    say(f"The store has schema version {upgrade(store_url)}.")


@app.command("copy")
def copy(
    source_url: Annotated[str, argument("FROM", "Database to read: a file or an SQLAlchemy URL.")],
    target_url: Annotated[str, argument("TO", "Database to copy to; created if missing.")],
    as_json: options.AsJson = False,
) -> None:
    """Copy all runs, policies and trainings to another database, and verify every row.

    Rows in TO are kept: repeat the command to finish an interrupted copy or to add newer rows. FROM
    may be in use; rows written after the start of the copy are left out. Policy folders are not copied.

    [dim]Example:[/dim]  evovpo store copy evovpo.db postgresql+psycopg://me@server/evovpo
    """
    from evovpo.store.copying import copy_store

    def on_table(name: str, new: int) -> None:
        say(f"{name:20} {new:>12,} new rows", stderr=True)

    with open_store(source_url) as source, open_store(target_url, create=True) as target:
        found = copy_store(source, target, on_table)
        option = store_option(target)
    if as_json:
        print_json(found._asdict())
    if not found.verified:
        raise StoreError("rows left TO while others were copied there; give the same command again")
    if not as_json:
        say(f"All {found.rows:,} rows are there, {found.copied:,} of them new; each was read back.")
        say(f"\nLook at them:  evovpo runs{option}")


@app.command("prune")
def prune(
    names: Annotated[list[str] | None, argument("RUN", "Run ids or their prefixes.")] = None,
    everything: Annotated[
        bool, flag("--all", "Remove all finished runs that no policy was trained on.")
    ] = False,
    yes: Annotated[bool, flag("--yes", "Actually remove them.")] = False,
    store_url: options.StoreUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Remove runs with their programs and evaluations; without --yes only show what would be removed.

    Runs shown as "running" or used to train a policy are kept. Other processes wait during the removal.

    [dim]Examples:[/dim]  evovpo store prune 3f2a 77c0
               evovpo store prune --all --yes
    """
    from evovpo.store import pruning

    if bool(names) == everything:
        raise StoreError("expected either the ids of runs or --all; `evovpo runs` lists them")
    with open_store(store_url) as store:
        named = [store.run(name).id for name in names or ()] or [row.run for row in store.runs()]
        found = pruning.prune(store, dict.fromkeys(named), is_trial=not yes)
        if yes:
            store.compact()
    rows = sum(found.tables.values())
    if as_json:
        print_json({**found._asdict(), "rows": rows, "removed": yes})
        return
    for name, count in found.tables.items():
        say(f"{name:20} {count:>12,} rows")
    for run, reason in found.kept.items():
        say(f"stays: {run}: {reason}")
    what = f"{len(found.runs)} runs with {rows:,} rows"
    say(f"Removed {what}." if yes else f"{what} would go; nothing is changed. To remove them, add --yes.")
