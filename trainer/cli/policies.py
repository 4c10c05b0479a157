"""The commands `evovpo policies` and `evovpo rollback`: wiring only."""

from typing import Annotated

from evovpo.cli import options
from evovpo.cli.options import argument
from evovpo.cli.terminal import open_store, print_json, say, show_answer
from trainer.cli.options import Servers, check_installed, targets_of


def list_policies(store_url: options.StoreUrl = None, as_json: options.AsJson = False) -> None:
    """List the policy versions, and say which one searches follow.

    [dim]Example:[/dim]  evovpo policies
    """
    from trainer.reports.training import policies_json, policies_table

    with open_store(store_url) as store:
        rows = policies_json(
            store.policy_versions(), store.served(), store.trainings(), store.policy_events()
        )
    if as_json:
        print_json(rows)
    elif rows:
        show_answer(policies_table([row for row in rows if isinstance(row, dict)]))
    else:
        say("No policy versions yet. Make one from a run:  evovpo retrain latest")


def rollback(
    number: Annotated[
        int | None,
        argument("[VERSION]", "The version to serve instead.", "the parent of the served one", min=0),
    ] = None,
    servers: Servers = None,
    store_url: options.StoreUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Serve another policy version, by default the one before; searches that follow go on with it.

    [dim]Example:[/dim]  evovpo rollback
    """
    check_installed()
    from trainer.loop.publish import roll_back

    with open_store(store_url) as store:
        version = roll_back(store, number, targets_of(servers))
    if as_json:
        print_json({"policy_version": version.number, "path": version.path})
    else:
        say(f"Policy version {version.number} is served.")
