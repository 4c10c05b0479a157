"""The commands `evovpo store`: upgrade, copy and prune the database that runs are kept in; wiring only."""

from typing import Annotated

import typer

from evovpo.cli import options
from evovpo.cli.options import argument
from evovpo.cli.terminal import open_store, print_json, say, store_option
from evovpo.errors import StoreError

app = typer.Typer(help="Look after the database that runs are kept in.", no_args_is_help=True)


@app.command("upgrade")
def upgrade_store(
    store_url: Annotated[str | None, argument("URL", "Database.", "sqlite:///evovpo.db")] = None,
) -> None:
    """Bring a database of an older version to the one of this package; all its rows are kept.

    [dim]Example:[/dim]  evovpo store upgrade sqlite:///evovpo.db
    """
    from evovpo.store import upgrade

    say(f"The store has schema version {upgrade(store_url)}.")


@app.command("copy")
def copy(
    source_url: Annotated[str, argument("FROM", "Database to read: a file or an SQLAlchemy URL.")],
    target_url: Annotated[str, argument("TO", "Database to add its rows to; made if it is not there.")],
    as_json: options.AsJson = False,
) -> None:
    """Copy all runs, policies and trainings of one database to another, and read every row back.

    What TO has stays: the same command goes on with a copy that was cut short, or brings what is new in FROM.
    FROM may be written meanwhile; what comes after the beginning is left out. Folders of policies are not
    copied.

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
    names: Annotated[list[str] | None, argument("RUN", "Ids of runs, or beginnings of ids.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every run that ended and that no policy was trained on.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Remove them; without it nothing is changed.")] = False,
    store_url: options.StoreUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Remove runs, with the programs and judgements that only they have; first say what would go.

    Runs that policies were trained on stay, and runs that say running. Others wait while it works.

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
