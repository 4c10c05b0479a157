"""From a trained model to a version that searches use: write the folder, warm what serves it, then the row.

A row of `policy_versions` means "servable". So the folder is written beside its place and renamed; what was
written is loaded afresh and must give the trainer's log-probabilities of a fixed text; every server must
give them too; only then the row is added and the version served. A process killed anywhere in between
leaves at most a folder without a row, which the next publication removes.

One process publishes into a policies folder at a time (the trainer holds its lock). Left out: whether a
version is any good, which `trainer/loop/probe.py` asks.
"""

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evovpo.errors import PolicyError, PublishError, ServerError
from evovpo.proposers.policies import is_adapter, read_warm_up, require_folder
from evovpo.proposers.server import TOLERANCE, VLLMServer
from evovpo.store import Store
from evovpo.types import PolicyEvent, PolicyEventKind, PolicyVersion
from trainer.learning.policy_folder import place, write_folder
from trainer.learning.warm_up import logprobs, make_warm_up, warm, warm_up_of

_REFUSED = ".refused"
"""End of the name of a folder that is kept for inspection."""


def publish_policy(
    store: Store,
    model: Any,
    tokenizer: Any,
    *,
    policies: Path,
    parent: PolicyVersion,
    trained_through: str | None,
    config_hash: str,
    metrics: Mapping[str, float],
    targets: Sequence[VLLMServer] = (),
    serve: bool = True,
) -> PolicyVersion:
    """Write a trained model as the next policy version, make every target offer it, store and serve it.

    `model` is a transformers causal language model, or a PEFT model, of which only the adapter is written;
    its base must lie in a folder. It comes back as it was. `tokenizer` goes with full weights only. With
    `serve` false the version is stored and searches go on with the served one, until `serve_policy`;
    targets then get an adapter, but not full weights, which would replace the served ones.

    Called again for the version that was stored last (same parent, `trained_through`, `config_hash` and
    log-probabilities), as after a crash, it does what is missing and returns that version.

    Raises `PublishError`, with a `refused` event and every target back at what was served, if what was
    written or what a target computes differs from the model, or if a target fails. The refused folder
    stays beside the others for inspection. If the folder cannot be written (disk full), raises
    `PublishError` with nothing stored at all. Raises `StoreError` as the store does.
    """
    policies = policies.resolve()
    warm_up = make_warm_up(model)
    version = _stored_before(store, model, parent, trained_through, config_hash)
    is_new = version is None
    if version is None:
        number = _next_number(store)
        folder = place(store, policies, number)
        write_folder(folder, model, tokenizer, store, warm_up)
        figures = tuple((name, float(value)) for name, value in metrics.items())
        version = PolicyVersion(number, parent.number, str(folder), trained_through, config_hash, figures)
    try:
        loaded = targets if serve or is_adapter(version) else ()
        detail = warm(version, store.served() or parent, warm_up, loaded)
    except (PolicyError, ServerError) as error:
        if is_new:
            kept = Path(version.path + _REFUSED)
            shutil.rmtree(kept, ignore_errors=True)
            Path(version.path).rename(kept)
        raise _refused(store, version, error) from error
    if is_new:
        store.add_policy_version(version)
    if not any(
        event.number == version.number and event.kind is PolicyEventKind.PUBLISHED
        for event in store.policy_events()
    ):
        store.add_policy_event(PolicyEvent(version.number, PolicyEventKind.PUBLISHED, detail))
    if serve:
        _serve(store, version, f"trained from version {parent.number}", targets)
    return version


def serve_policy(
    store: Store,
    number: int,
    reason: str,
    targets: Sequence[VLLMServer] = (),
    *,
    is_roll_back: bool = False,
) -> PolicyVersion:
    """Make every target offer a stored version, then make it the one that searches follow; return it.

    Raises `PolicyError` if its folder is gone; `PublishError`, with a `refused` event and every target back
    at what was served, if the folder no longer holds what was published or a target fails; `StoreError` if
    there is no such version.
    """
    version = store.policy_version(number)
    require_folder(version)
    try:
        warm(version, store.served() or version, warm_up_of(version), targets)
    except (PolicyError, ServerError) as error:
        raise _refused(store, version, error) from error
    _serve(store, version, reason, targets, is_roll_back=is_roll_back)
    return version


def roll_back(store: Store, number: int | None = None, targets: Sequence[VLLMServer] = ()) -> PolicyVersion:
    """Serve an older version again, by default the parent of the served one; return it.

    Raises as `serve_policy`, and `PublishError` if nothing is served or the served version has no parent.
    """
    served = store.served()
    if served is None:
        raise PublishError(f"{store.name} serves no policy version yet; there is nothing to roll back")
    if number is None:
        number = served.parent
    if number is None:
        raise PublishError(
            f"policy version {served.number} is served, and it has no parent to go back to; name a version"
        )
    return serve_policy(
        store, number, f"rolled back from version {served.number}", targets, is_roll_back=True
    )


def _refused(store: Store, version: PolicyVersion, error: Exception) -> PublishError:
    store.add_policy_event(PolicyEvent(version.number, PolicyEventKind.REFUSED, str(error)))
    return PublishError(
        f"policy version {version.number} is not served: {error}. Searches go on with the version served "
        "before"
    )


def _serve(
    store: Store,
    version: PolicyVersion,
    reason: str,
    targets: Sequence[VLLMServer],
    *,
    is_roll_back: bool = False,
) -> None:
    """Serve a version, and unload all adapters but it and the one served before.

    Requests under that one may be on their way; those under older ones have ended long ago, and a search
    that still wants one loads it again.
    """
    before = store.served()
    store.serve(version.number, reason, is_roll_back=is_roll_back)
    kept = {version.number, before.number if before else None}
    for old in store.policy_versions():
        if old.number not in kept and is_adapter(old):
            for target in targets:
                with contextlib.suppress(ServerError):
                    target.unload(old)


def _stored_before(
    store: Store, model: Any, parent: PolicyVersion, trained_through: str | None, config_hash: str
) -> PolicyVersion | None:
    """Return the last stored version if it is this very one, whose publication was interrupted."""
    stored = store.policy_versions()
    if not stored:
        return None
    last = stored[-1]
    same = (last.parent, last.trained_through, last.config_hash) == (
        parent.number,
        trained_through,
        config_hash,
    )
    written = read_warm_up(Path(last.path)) if same else None
    if written is None or written.difference(logprobs(model, *written[:2])) > TOLERANCE:
        return None
    return last


def _next_number(store: Store) -> int:
    """Return the lowest number above all that were stored or refused."""
    numbers = {0} | {version.number for version in store.policy_versions()}
    return 1 + max(numbers | {event.number for event in store.policy_events() if event.number is not None})
