"""Reads a study file, and reports all its errors at once."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evovpo.config_tree import read_toml
from evovpo.errors import ConfigError, StoreError, nearest_hint, raise_faults
from evovpo.experiments.toml_reader import PartReader
from evovpo.store import Store
from trainer.domains.catalogue import START_FOLDERS
from trainer.experiments.study import START, Study, StudyArm, StudyStrategy, store_url
from trainer.objectives import OBJECTIVES, ONE_ANSWER_ADVICE

_BUNDLED = Path(__file__).parent / "studies"
_SEARCH_DOMAINS = ("strings",)


def bundled_studies() -> list[str]:
    return sorted(path.stem for path in _BUNDLED.glob("*.toml"))


def read_bundled(
    name: str, folder: Path, changes: Mapping[str, Any], arms: Sequence[str] | None = None
) -> Study:
    """Return a bundled study whose rows and report go into `folder`.

    `changes` maps keys to new values; the key `training.tokens` means `tokens` in the table `training`.
    `arms` names the arms to train (default: all). Raises a `ConfigError` that lists all errors.
    """
    data = read_toml(_BUNDLED / f"{name}.toml")
    for key, value in changes.items():
        table, _, field = key.rpartition(".")
        (data.setdefault(table, {}) if table else data)[field] = value
    trained = {arm["name"]: arm for arm in data["arms"] if "objective" in arm}
    wanted = trained if arms is None else arms
    for key in wanted:
        if key not in trained:
            raise ConfigError(f"--arms: unknown arm {key!r}; {nearest_hint(key, trained)}")
    data["arms"] = [arm for arm in data["arms"] if "model" in arm] + [trained[key] for key in wanted]
    data["references"] = [one for one in data["references"] if one in wanted or one not in trained]
    faults: list[str] = []
    study = StudyReader(Path(f"study {name}"), faults).study(data, True, folder)
    raise_faults(faults)
    return study


def read_study(path: Path, *, runs: bool, work: Path | None = None) -> Study:
    """Return the study in a file.

    If `runs` is true, also check that everything needed to run the study exists. If `work` has a store, the
    store must be usable. Raises a `ConfigError` that lists all errors.
    """
    faults: list[str] = []
    reader = StudyReader(path, faults)
    study = reader.study(read_toml(path), runs, path.parent)
    if work is not None and (work / "study.db").exists():
        try:
            Store.open(store_url(work), create=False).close()
        except StoreError as error:
            faults.append(str(error))
    if runs and not study.primary:
        reader.add(
            "primary: expected the one figure that decides, in a sentence, found none; fix it before the "
            'first row, for example "problems solved by islands, vpo-at-k minus grpo"'
        )
    if runs and not study.start.joinpath("model.safetensors").is_file():
        reader.add(
            f"start: {study.start}: expected a model folder with model.safetensors, found none; make it, or "
            "name another"
        )
    raise_faults(faults)
    return study


class StudyReader(PartReader):
    def study(self, data: Mapping[str, Any], runs: bool, folder: Path) -> Study:
        start, domain = data.get("start"), data.get("domain", _SEARCH_DOMAINS[0])
        folders = START_FOLDERS
        if isinstance(start, str) and start:
            folders = folders | {str(domain): (self.path.parent / start).resolve()}
        later: dict[str, Any] = dict.fromkeys(("problems", "references", "strategies", "arms"), ())
        about: dict[str, Any] = {"path": self.path, "folder": folder, "domain": str(domain)}
        about["start"] = folders.get(str(domain), Path())
        study = self.part(Study, data, name=self.name(data), **about, **later)
        known = tuple(START_FOLDERS) if study.test.tasks else _SEARCH_DOMAINS
        if domain not in known:
            self.add(
                f"domain: models of {domain!r} cannot search problems; {nearest_hint(str(domain), known)}"
            )
        if not study.test.tasks and study.tuning.temperatures != (1.0,):
            self.add("tuning.temperatures: models that search problems are sampled at 1; leave it out")
        too_large = [k for k in study.ks if k > study.evaluations]
        if too_large and not study.test.tasks and not any(": ks: " in fault for fault in self.faults):
            self.add(f"ks: {too_large} are more than the {study.evaluations} evaluations; leave them out")
        if not study.test.tasks:
            study = study.model_copy(update={"strategies": self._strategies(data)})
        arms = self._arms(data, study)
        names = [arm.name for arm in arms]
        references = self.names(data.get("references", ()), "references", names)
        if not references:
            self.add(f"references: expected names of arms to compare with, of {names}, found none")
        problems = self.problems(data) if runs and not study.test.tasks else ()
        found = {"problems": problems, "references": references, "arms": arms}
        return study.model_copy(update=found | {"ks": tuple(sorted(study.ks))})

    def _strategies(self, data: Mapping[str, Any]) -> tuple[StudyStrategy, ...]:
        found = []
        for number, entry in enumerate(self.tables(data, "strategies"), 1):
            name = self.name(entry, f"strategies {number}")
            where = f"strategies {number} ({name})"
            keys = {key: entry[key] for key in ("answers_per_ask", "arms", "seeds") if key in entry}
            rest = {key: part for key, part in entry.items() if key not in ("name", *keys)}
            settings = self.settings(rest, where)
            found.append(self.part(StudyStrategy, keys, where, name=name, settings=settings))
        self.different([strategy.name for strategy in found], "strategies")
        if not any(strategy.is_independent for strategy in found):
            self.add(
                'strategies: none has search.strategy = "iid"; best@k comes from independent answers: add one'
            )
        return tuple(found)

    def _arms(self, data: Mapping[str, Any], study: Study) -> tuple[StudyArm, ...]:
        entries, tokens = self.tables(data, "arms"), study.training.tokens
        if any(entry.get("tokens", tokens) != tokens for entry in entries):
            listed = ", ".join(f"{one.get('name')}: {one['tokens']}" for one in entries if "tokens" in one)
            self.add(
                f"arms: other token budgets than training.tokens = {tokens} ({listed}); arms are compared at "
                "equal tokens: give all the same"
            )
        arms = tuple(self._arm(f"arms {number}", one, study) for number, one in enumerate(entries, 1))
        self.different([arm.name for arm in arms], "arms")
        names = {arm.name: arm for arm in arms}
        for strategy in study.strategies:
            self.names(strategy.arms, "arms", [*names], f"strategy {strategy.name}")
        for arm in arms:
            where = f"arm {arm.name}"
            other = names.get(arm.tuned_as)
            if arm.tuned_as and (other is None or not other.objective or other.tuned_as):
                self.add(f"tuned_as: {arm.tuned_as!r} is no arm that is tuned; name one that is", where)
            if arm.tuned_as and arm.kl is not None:
                self.add("names both tuned_as and kl; leave one out", where)
            self.names(arm.references, "references", [*names], where)
        return arms

    def _arm(self, place: str, entry: Mapping[str, Any], study: Study) -> StudyArm:
        name = self.name(entry, place)
        where = f"arm {name}"
        model, objective, answers = (entry.get(key) for key in ("model", "objective", "answers"))
        if (objective is None) == (model is None):
            both = "both" if model is not None else "neither"
            self.add(
                "has no policy of its own: expected objective (it is trained) or model (start, or a folder), "
                f"found {both}",
                where,
            )
        if objective is not None and str(objective) not in OBJECTIVES:
            self.add(f"objective: {objective!r} is none; {nearest_hint(str(objective), OBJECTIVES)}", where)
        if model not in (None, START):
            model = str((self.path.parent / str(model)).resolve())
            if not Path(model, "config.json").is_file():
                self.add(f"model: {model}: expected a folder with config.json, found none; correct it", where)
        answers = answers if type(answers) is int and answers > 0 else 1
        if objective in OBJECTIVES and answers < OBJECTIVES[str(objective)].least_answers:
            self.add(f"objective: {objective} {ONE_ANSWER_ADVICE}".replace("search.", ""), where)
        defaults = {"search_answers": answers, "seeds": study.seeds, "evaluations": study.evaluations}
        if objective is not None:
            defaults["rollouts"] = 24 // answers
        known = [one.name for one in study.strategies if not one.arms or name in one.arms]
        listed = entry.get("strategies", known)
        wanted = self.names(listed, "strategies", known, where, least=min(1, len(known)))
        strategies = tuple(one for one in known if one in wanted)
        told = {"name": name, "model": model or "", "objective": str(objective or "")}
        arm = self.part(StudyArm, {**defaults, **entry}, where, **told, strategies=strategies)
        for strategy in study.strategies:
            if strategy.name in strategies and strategy.answers_per_ask % arm.search_answers:
                self.add(
                    f"asks for {arm.search_answers} answers a completion, of which {strategy.answers_per_ask}"
                    f" answers an ask of {strategy.name} is no multiple; change one",
                    where,
                )
        return arm
