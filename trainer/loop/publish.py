"""Publishes a trained model: writes its folder, loads it into the servers, then stores the version.

Every version in the table `policy_versions` can be served. Before a version is added to the table, its folder
is written atomically. Then the folder's model and every server must give a fixed text the same
log-probabilities as the trained model. If the process is killed before it adds the version, the next
publication removes the folder. Only one process at a time may publish into a policies folder.
"""

import contextlib
import copy
import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evovpo.errors import PolicyError, PublishError, ServerError
from evovpo.proposers.local import load_model
from evovpo.proposers.policy_folders import WarmUp, is_adapter, read_warm_up, require_folder
from evovpo.proposers.policy_server import TOLERANCE, VLLMServer, load_and_compare
from evovpo.store import Store
from evovpo.types import PolicyEvent, PolicyEventKind, PolicyVersion
from trainer.learning.policy_models import TrainableModel, write_folder

_TEXT_TOKENS, _PLACES = 160, 8
"""Length of the fixed text, and number of compared positions. The text fills a vLLM prefix-cache block."""


def publish_policy(
    store: Store,
    trained: TrainableModel,
    made: PolicyVersion,
    policies: Path,
    targets: Sequence[VLLMServer] = (),
) -> PolicyVersion:
    """Write a trained model as the next policy version, and store the version without serving it.

    For a PEFT model, only the adapter is written, and the servers in `targets` load it. Its base model must
    be a folder. `made` describes the version, except for its number and path. If `made` is already stored as
    the last version, for example after a crash, its publication is completed.

    Raises `PublishError` and stores a `refused` event if the log-probabilities of the written folder or of a
    server differ from the model's, or if a server fails. A refused new folder is kept for inspection. If the
    folder cannot be written, raises `PublishError` and stores nothing.
    """
    version = _stored_before(store, trained, made)
    warm_up = make_warm_up(trained.model)
    is_new = version is None
    if version is None:
        numbers = [0, *(one.number for one in store.policy_versions())]
        number = 1 + max(numbers + [event.number or 0 for event in store.policy_events()])
        folder = write_folder(store, policies.resolve(), number, trained, warm_up)
        version = dataclasses.replace(made, number=number, path=str(folder))
    try:
        detail = warm(version, warm_up, targets if is_adapter(version) else ())
    except (PolicyError, ServerError) as error:
        if is_new:
            refused = Path(version.path + ".refused")  # kept for inspection
            shutil.rmtree(refused, ignore_errors=True)
            Path(version.path).rename(refused)
        raise _refused(store, version, error) from error
    if is_new:
        store.add_policy_version(version)
    published = (version.number, PolicyEventKind.PUBLISHED)
    if published not in [(event.number, event.kind) for event in store.policy_events()]:
        store.add_policy_event(PolicyEvent(*published, detail))
    return version


def serve_policy(
    store: Store,
    number: int,
    reason: str,
    targets: Sequence[VLLMServer] = (),
    *,
    is_roll_back: bool = False,
) -> PolicyVersion:
    """Load a stored version into every server in `targets`, serve it to searches, and return it.

    Servers can load adapters only; full weights need a server that was started with them. Afterwards, the
    servers unload all adapters except this version's and that of the version served before, because running
    requests may still use it.

    Raises `PolicyError` if the folder is missing, and `StoreError` for an unknown version. Raises
    `PublishError` and stores a `refused` event if the folder has changed since publication or a server fails.
    """
    version = store.policy_version(number)
    require_folder(version)
    before = store.served() or version
    try:
        published = read_warm_up(Path(version.path))  # a start model has none
        warm(version, published or make_warm_up(load_model(version).model), targets)
    except (PolicyError, ServerError) as error:
        raise _refused(store, version, error) from error
    store.serve(number, reason, is_roll_back=is_roll_back)
    for old in store.policy_versions():
        if old.number not in (number, before.number) and is_adapter(old):
            for target in targets:
                with contextlib.suppress(ServerError):
                    target.unload(old)
    return version


def roll_back(store: Store, number: int | None = None, targets: Sequence[VLLMServer] = ()) -> PolicyVersion:
    """Serve an older version again, by default the parent of the served version, and return it.

    Raises the errors of `serve_policy`, and `PublishError` if no version is served or there is no parent.
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


def _stored_before(store: Store, trained: TrainableModel, made: PolicyVersion) -> PolicyVersion | None:
    last = next(reversed(store.policy_versions()), None)
    if last is None or dataclasses.replace(made, number=last.number, path=last.path) != dataclasses.replace(
        last, metrics=made.metrics
    ):
        return None
    written = read_warm_up(Path(last.path))
    if written is None or written.difference(logprobs(trained.model, *written[:2])) > TOLERANCE:
        return None
    return last


def make_warm_up(model: Any) -> WarmUp:
    """Return a fixed text, the likeliest next tokens at the last positions, and their log-probabilities."""
    vocabulary = len(model.get_input_embeddings().weight)
    length = min(_TEXT_TOKENS, getattr(model.config, "max_position_embeddings", 2 * _TEXT_TOKENS) // 2)
    text = tuple(np.random.default_rng(0).integers(vocabulary, size=length).tolist())
    values, tokens = _next_logprobs(model, text, _PLACES).max(-1)
    return WarmUp(text, tuple(tokens.tolist()), tuple(values.tolist()))


def logprobs(model: Any, text_ids: Sequence[int], next_ids: Sequence[int]) -> tuple[float, ...]:
    """Return the log-probabilities of N possible next tokens at the last N positions of a text.

    Value i is the log-probability of `next_ids[i]` directly after the i-th of these positions.
    """
    found = _next_logprobs(model, text_ids, len(next_ids))
    return tuple(found.gather(1, torch.tensor(next_ids)[:, None])[:, 0].tolist())


def _next_logprobs(model: Any, ids: Sequence[int], places: int) -> torch.Tensor:
    """Return next-token log-probabilities, of shape (places, V), at a text's last positions, in float32."""
    if any((p.dtype, p.device.type) != (torch.float32, "cpu") for p in model.parameters()):
        model = copy.deepcopy(model).float().cpu()  # the same arithmetic as for the loaded folder
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            logits = model(input_ids=torch.tensor([list(ids)])).logits[0, -places:]
    finally:
        model.train(was_training)
    return torch.log_softmax(logits, -1)


def warm(version: PolicyVersion, warm_up: WarmUp, targets: Sequence[VLLMServer]) -> str:
    """Load a version in this process and on all servers. Return as text how each differs from `warm_up`.

    Raises `PolicyError` if the folder is unusable or differs by more than `TOLERANCE`. If a server fails or
    differs by more than the server's tolerance, all servers unload the version and `ServerError` is raised.
    """
    difference = warm_up.difference(logprobs(load_model(version).model, *warm_up[:2]))
    if not difference <= TOLERANCE:
        raise PolicyError(
            f"what lies in {version.path} gives log-probabilities that differ by {difference:.3g} nats from "
            f"the trained model's (allowed: {TOLERANCE:g}); it was not written whole, or stands on another "
            "base model than it was trained on"
        )
    found = [f"{difference:.2g} loaded afresh"]
    for number, target in enumerate(targets):
        try:
            found.append(f"{load_and_compare(target, version, warm_up):.2g} at {target.address}")
        except ServerError:
            for other in targets[:number]:
                with contextlib.suppress(ServerError):
                    other.unload(version)
            raise
    return f"log-probabilities differ by at most {', '.join(found)}"
