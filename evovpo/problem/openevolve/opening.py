"""Opens an OpenEvolve project, with settings from its YAML file, a TOML file and overrides."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from evovpo.config import Config, SearchConfig
from evovpo.problem.openevolve.config_file import NO_SETTINGS, OpenEvolveSettings, read_settings
from evovpo.problem.openevolve.evaluator import open_openevolve
from evovpo.problem.openevolve.folder import other_settings, own_settings, read_project
from evovpo.problem.openevolve.loading import LoadedProject, OpenEvaluator, load_openevolve
from evovpo.problem.openevolve.metrics import read_metrics
from evovpo.sandbox.openings import read_openings
from evovpo.trust import NOT_OPENINGS, asked_for, require
from evovpo.types import Evaluation, Problem, Trust

_USUAL: dict[str, dict[str, object]] = {
    "search": {"joins": False, "rollouts": 1, "islands": 5, "elites": 20},
    "sampling": {"temperature": 0.7},
    "run": {"seed": 42},
    "prompt": {"enforce_blocks": False},
}


def open_project(
    path: Path,
    config_file: Path | None = None,
    changes: Mapping[str, object] | None = None,
    yaml: Path | None = None,
    frozen: Callable[[Config], Iterable[Problem]] = lambda config: (),
    open_evaluator: OpenEvaluator = open_openevolve,
    allow: Sequence[str] = (),
    is_run: bool = False,
    known: Callable[[Config, Problem], Evaluation | None] | None = None,
) -> LoadedProject:
    """Return the project at `path` as a problem, with its configuration.

    Later sources of settings override earlier ones: defaults, OpenEvolve's YAML, `config_file`, `changes`.
    The YAML is `yaml` or, by default, the project's `config.yaml`; if `yaml` is "none", no YAML is read.
    `frozen` and `known` are as in `load_openevolve`, but are called with the configuration as first argument.
    Raises the errors of `load_openevolve`, and `ConfigError` for invalid settings.

    A project asks for permissions in its `metrics.toml`; if `is_run`, the servers and keys in its own YAML
    need permission, too. The user grants them with `allow` or in settings. Raises `NotAllowedError` if a
    permission is missing.
    """
    file = own_settings(path) if yaml is None else yaml
    settings = NO_SETTINGS if file is None or str(file) == "none" else read_settings(file)
    others = [] if file else other_settings(path)
    given = Config.load(config_file, changes)
    base = _with_own_models(settings, given)
    search = base.get("search")
    if isinstance(search, dict) and given.search.strategy != SearchConfig().strategy:
        search.pop("ways", None)  # only islands choose among ways
    for section, usual in _USUAL.items():
        own = base.get(section)
        base[section] = usual | (own if isinstance(own, dict) else {})
    config = Config.load(config_file, changes, base, f"{file}, as settings here")
    named = {key: getattr(config.evaluator, key) for key in ("metrics", "initial_program")}
    files = {key: str(Path(file).resolve()) for key, file in named.items() if file}
    config = config.changed(evaluator=files)
    project = read_project(path, config.evaluator.initial_program)
    metrics = config.evaluator.metrics or project.metrics
    wanted, own = read_metrics(metrics)[1], given.evaluator.allow
    openings: list[str] = []
    for place, found in ((str(metrics), wanted), ("evaluator.allow", own), ("--allow", allow)):
        here = [word for word in found if not word.startswith(NOT_OPENINGS)]
        read_openings(here, project.folder, place)
        openings += here
    if is_run and yaml is None:  # a file named by the user is trusted
        wanted += asked_for(config.changed(evaluator={"allow": ()}))
    require(f"the project {project.folder}", wanted, {*own, *allow, *asked_for(given)})
    words = read_openings(openings, project.folder).words
    config = config.changed(evaluator={"allow": words})
    known_here = partial(known, config) if known else None
    loaded = load_openevolve(path, config, settings, frozen(config), open_evaluator, known_here)
    if others:
        unread = f"not read: {', '.join(others)}; if one of them is its configuration, give it with --config"
        loaded = loaded._replace(remarks=(unread, *loaded.remarks))
    if words:
        is_low = loaded.problem.trust is Trust.LOW
        who = "and for every candidate, which shares its process" if is_low else "candidates have none of it"
        remark = f"opened for the evaluator, {who}: {', '.join(words)}"
        loaded = loaded._replace(remarks=(remark, *loaded.remarks))
    return loaded


def _with_own_models(settings: OpenEvolveSettings, given: Config) -> dict[str, object]:
    """Return the settings from YAML, without the models or servers that the user's settings replace."""
    models, values = settings.models, settings.values
    if given.proposer.model or given.models:
        values = {name: value for name, value in values.items() if name != "proposer.model"}
        own = models[0] if models and not given.models else {}
        fields = {key: value for key, value in own.items() if key not in ("base_url", "weight")}
        models = ({**fields, "name": given.proposer.model},) if fields else ()
    if given.proposer.base_url:
        models = tuple({key: table[key] for key in table if key != "base_url"} for table in models)
    return settings._replace(models=models, values=values).base()
