"""From a trained model to a version that searches use: write the folder, warm what serves it, then the row.

A row of `policy_versions` means "servable". So the folder is written beside its place and renamed; what was
written is loaded afresh and must give the trainer's log-probabilities of a fixed text; every server must
give them too; only then the row is added and the version served. A process killed anywhere in between
leaves at most a folder without a row, which the next publication removes.

One process publishes into a policies folder at a time (the trainer holds its lock). Left out: whether a
version is any good, which `trainer/loop/probe.py` asks.
"""

from __future__ import annotations

import contextlib
import copy
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError

from evovpo.errors import PolicyError, PublishError, ServerError
from evovpo.files import PARTIAL, written_whole
from evovpo.proposers.local import load_model, no_progress_bar
from evovpo.proposers.server import (
    ADAPTER_FILE,
    POLICY_FILE,
    TOLERANCE,
    PolicyServer,
    WarmUp,
    base_version,
    is_adapter,
    load_and_compare,
    read_warm_up,
    require_folder,
)
from evovpo.store import Store
from evovpo.types import PolicyEvent, PolicyEventKind, PolicyVersion

_TEXT_TOKENS, _PLACES = 160, 8
"""Length of the fixed text, and how many of its places are compared. It fills a block of vLLM's prefix cache
(128 tokens on CPUs) and takes at most half of the model's context."""
_FOLDER, _REFUSED = "v{:04d}", ".refused"
_OWN = re.compile(rf"v\d{{4,}}({re.escape(PARTIAL)})?")


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
    targets: Sequence[PolicyServer] = (),
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
        folder = _place(store, policies, number)
        _write(folder, model, tokenizer, {"store": _owner(store), "warm_up": warm_up._asdict()})
        figures = tuple((name, float(value)) for name, value in metrics.items())
        version = PolicyVersion(number, parent.number, str(folder), trained_through, config_hash, figures)
    try:
        loaded = targets if serve or is_adapter(version) else ()
        detail = _warm(version, store.served() or parent, warm_up, loaded)
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
    targets: Sequence[PolicyServer] = (),
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
        _warm(version, store.served() or version, _warm_up_of(version), targets)
    except (PolicyError, ServerError) as error:
        raise _refused(store, version, error) from error
    _serve(store, version, reason, targets, is_roll_back=is_roll_back)
    return version


def roll_back(store: Store, number: int | None = None, targets: Sequence[PolicyServer] = ()) -> PolicyVersion:
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


def make_warm_up(model: Any) -> WarmUp:
    """Return what the model says of a fixed text: its likeliest next tokens and their log-probabilities.

    The text is pseudo-random: behind text of its own kind a model is so sure that changed weights hardly
    show. Likeliest tokens, because servers list few.
    """
    vocabulary = len(model.get_input_embeddings().weight)
    length = min(_TEXT_TOKENS, getattr(model.config, "max_position_embeddings", 2 * _TEXT_TOKENS) // 2)
    text = tuple(np.random.default_rng(0).integers(vocabulary, size=length).tolist())
    values, tokens = _next_logprobs(model, text, _PLACES).max(-1)
    return WarmUp(text, tuple(tokens.tolist()), tuple(values.tolist()))


def _logprobs(model: Any, text_ids: Sequence[int], next_ids: Sequence[int]) -> tuple[float, ...]:
    """Return the log-probabilities (N) of `next_ids` behind the last N prefixes of a text."""
    found = _next_logprobs(model, text_ids, len(next_ids))
    return tuple(found.gather(1, torch.tensor(next_ids)[:, None])[:, 0].tolist())


def _next_logprobs(model: Any, ids: Sequence[int], places: int) -> torch.Tensor:
    """Return the log-probabilities behind the last prefixes of a text (places, V), in float32, no dropout."""
    if any((p.dtype, p.device.type) != (torch.float32, "cpu") for p in model.parameters()):
        model = copy.deepcopy(model).float().cpu()  # as what was written is loaded: the same arithmetic
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            logits = model(input_ids=torch.tensor([list(ids)])).logits[0, -places:]
    finally:
        model.train(was_training)
    return torch.log_softmax(logits, -1)


def _warm_up_of(version: PolicyVersion) -> WarmUp:
    """Return what a version's folder must compute: as published, or as it computes now (a start model)."""
    return read_warm_up(Path(version.path)) or make_warm_up(load_model(version).model)


def _warm(
    version: PolicyVersion, served: PolicyVersion, warm_up: WarmUp, targets: Sequence[PolicyServer]
) -> str:
    """Compare the folder loaded afresh and every target with the trainer; return the differences, in words.

    Raises `PolicyError` or `ServerError` at the first that differs or fails; the targets are then back at
    `served`.
    """
    difference = warm_up.difference(_logprobs(load_model(version).model, *warm_up[:2]))
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
        except (PolicyError, ServerError) as error:
            notes = [_put_back(other, version, served) for other in targets[: number + 1]]
            raise ServerError("; ".join([str(error), *filter(None, notes)])) from error
    return f"log-probabilities differ by at most {', '.join(found)}"


def _put_back(target: PolicyServer, version: PolicyVersion, served: PolicyVersion) -> str:
    """Make a target offer what it offered before `version`; return what the user must do, if anything."""
    if is_adapter(version):
        with contextlib.suppress(ServerError):
            target.unload(version)
        return ""
    try:
        base = base_version(served)
        with contextlib.suppress(ServerError):  # one that refused the new weights still has the old ones
            target.load(base)
        load_and_compare(target, base, _warm_up_of(base))
        if is_adapter(served):
            load_and_compare(target, served, _warm_up_of(served))
    except (PolicyError, ServerError) as error:
        with contextlib.suppress(ServerError):
            target.pause()
        return (
            f"{target.address} could not be put back to version {served.number} either ({error}) and was "
            f"told to pause: restart it on {served.path}"
        )
    return ""


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
    targets: Sequence[PolicyServer],
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
    if written is None or written.difference(_logprobs(model, *written[:2])) > TOLERANCE:
        return None
    return last


def _next_number(store: Store) -> int:
    """Return the lowest number above all that were stored or refused."""
    numbers = {0} | {version.number for version in store.policy_versions()}
    return 1 + max(numbers | {event.number for event in store.policy_events() if event.number is not None})


def _owner(store: Store) -> str:
    return str(store.file.resolve()) if store.file else store.name


def _place(store: Store, policies: Path, number: int) -> Path:
    """Return the folder for a version, after removing what killed publications of this store left.

    Raises `PublishError` if the folder is taken by something else.
    """
    folder = policies / _FOLDER.format(number)
    known = {Path(version.path) for version in store.policy_versions()}
    try:
        policies.mkdir(parents=True, exist_ok=True)
        for entry in policies.iterdir():
            if entry not in known and _OWN.fullmatch(entry.name) and _owner_of(entry) in ("", _owner(store)):
                shutil.rmtree(entry)
    except OSError as error:
        raise PublishError(
            f"{policies} cannot be used as the folder of policies ({error}); nothing was stored"
        ) from error
    if folder.exists():
        raise PublishError(
            f"{folder} exists and is not of this store (it belongs to {_owner_of(folder)}); give every store "
            "a policies folder of its own, or remove it"
        )
    return folder


def _owner_of(folder: Path) -> str:
    """Return which store a folder was written for; empty for one that was begun and holds nothing yet."""
    try:
        return str(json.loads((folder / POLICY_FILE).read_text(encoding="utf-8"))["store"])
    except (OSError, ValueError, KeyError, TypeError):
        return "" if folder.name.endswith(PARTIAL) else "something else"


def _write(folder: Path, model: Any, tokenizer: Any, about: Mapping[str, Any]) -> None:
    """Write a policy folder beside its place and rename it; what exists under its name is whole.

    Raises `PublishError`, leaving nothing, if it cannot be written.
    """
    try:
        with written_whole(folder) as partial, no_progress_bar():
            partial.mkdir()
            (partial / POLICY_FILE).write_text(json.dumps(about), encoding="utf-8")
            if hasattr(model, "peft_config"):
                # Otherwise peft asks the network whether the base model had another vocabulary.
                model.save_pretrained(partial, save_embedding_layers=False)
                _name_base(partial / ADAPTER_FILE)
            else:
                model.save_pretrained(partial)
                tokenizer.save_pretrained(partial)
            for file in partial.iterdir():
                file.chmod(0o644)  # safetensors writes for its user alone; servers may run as another
    except (OSError, SafetensorError) as error:
        raise PublishError(
            f"{folder} cannot be written ({error}); nothing was stored, and searches go on with the version "
            "served before: make room, then publish again"
        ) from error


def _name_base(file: Path) -> None:
    """Make the base of an adapter a full path; raises `PublishError` if it is no folder."""
    config = json.loads(file.read_text(encoding="utf-8"))
    base = config.get("base_model_name_or_path")
    if not base or not Path(base).is_dir():
        raise PublishError(
            f"the adapter stands on the model {base!r}, which is no folder here; load the base model from a "
            "folder before training, so that searches and servers find the same one"
        )
    config["base_model_name_or_path"] = str(Path(base).resolve())
    file.write_text(json.dumps(config, indent=2), encoding="utf-8")
