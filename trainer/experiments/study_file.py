"""Reads the file of a study: its arms and strategies, and all that is wrong with them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evovpo.config_tree import read_toml
from evovpo.errors import ConfigError, StoreError, nearest_hint
from evovpo.experiments.reading import Reader, raise_faults
from evovpo.store import Store
from trainer.domains.domain import START_FOLDERS
from trainer.domains.on_policy import Arm, TrainingBudget
from trainer.experiments.records import START, Strategy, Study, StudyArm, store_url
from trainer.objectives import OBJECTIVES

_BUNDLED = Path(__file__).parent / "studies"
_KEYS = (
    "name", "description", "domain", "start", "problems", "evaluations", "seeds", "ks", "references",
    "training", "tuning", "test", "strategies", "arms",
)  # fmt: skip
_ARM_KEYS = (
    "name", "model", "objective", "settings", "answers", "rollouts", "entropy", "single_share",
    "parent_share", "passes", "search_answers", "tuned_as", "tokens", "seeds", "while_searching",
    "strategies", "evaluations", "references",
)  # fmt: skip
_STRATEGY_KEYS = ("name", "answers_per_ask", "arms", "seeds")
_SEARCH_DOMAINS = ("strings",)
"""Those whose trained models can search problems by example."""


def bundled_studies() -> list[str]:
    """Return the names of the studies that come with the package."""
    return sorted(path.stem for path in _BUNDLED.glob("*.toml"))


def read_bundled(
    name: str,
    folder: Path,
    changes: Mapping[str, Any],
    arms: Sequence[str] | None = None,
    largest_k: int | None = None,
) -> Study:
    """Return a study that comes with the package, whose rows and report lie in `folder`.

    `changes` replace keys of the file, those of a table as `training.tokens`; with `arms` only these are
    trained, without it all but the optional ones. Raises `ConfigError` naming everything that is wrong.
    """
    data = read_toml(_BUNDLED / f"{name}.toml")
    if largest_k is not None:
        data["ks"] = [*(k for k in data["ks"] if k < largest_k), largest_k]
    for key, value in changes.items():
        table, _, field = key.rpartition(".")
        (data[table] if table else data)[field] = value
    trained = {arm["name"]: arm for arm in data["arms"] if "objective" in arm}
    optional = {key for key, arm in trained.items() if arm.pop("optional", False)}
    wanted = [key for key in trained if key not in optional] if arms is None else arms
    for key in wanted:
        if key not in trained:
            raise ConfigError(f"--arms: unknown arm {key!r}; {nearest_hint(key, trained)}")
    data["arms"] = [arm for arm in data["arms"] if "model" in arm] + [trained[key] for key in wanted]
    data["references"] = [one for one in data["references"] if one in wanted or one not in trained]
    faults: list[str] = []
    study = _Reader(Path(f"study {name}"), faults).study(data, True, folder)
    raise_faults(faults)
    return study


def read_study(path: Path, *, runs: bool, work: Path | None = None) -> Study:
    """Return the study of a file; with `runs` what it needs to run must be there too.

    A store that lies in `work` must be usable. Raises `ConfigError` naming everything that is wrong.
    """
    faults: list[str] = []
    reader = _Reader(path, faults)
    study = reader.study(read_toml(path), runs, path.parent)
    if work is not None and (work / "study.db").exists():
        try:
            Store.open(store_url(work), create=False).close()
        except StoreError as error:
            faults.append(str(error))
    if runs and not study.start.joinpath("model.safetensors").is_file():
        reader.add(
            f"start: {study.start}: expected a model folder with model.safetensors, found none; make it, or "
            "name another"
        )
    raise_faults(faults)
    return study


class _Reader(Reader):
    """Reads the parts of a study file."""

    def study(self, data: Mapping[str, Any], runs: bool, folder: Path) -> Study:
        self.known(data, _KEYS)
        training = self.table(data, "training", ("tokens", "prompts", "tasks"))
        tuning = self.table(data, "tuning", ("learning_rates", "kls", "tasks"))
        tokens = self.whole(training, "tokens", 120_000, "training")
        seeds = self.whole(data, "seeds", 3)
        test_tasks = self.whole(self.table(data, "test", ("tasks",)), "tasks", 0, "test", least=0)
        evaluations = self.whole(data, "evaluations", 600)
        strategies = () if test_tasks else self._strategies(data)
        arms = self._arms(data, tokens, seeds, evaluations, strategies)
        ks = self.numbers(data, "ks", [1, 3, 10, 30, 96], 1)
        too_large = [k for k in ks if k > evaluations]
        if too_large and not test_tasks:
            self.add(f"ks: {too_large} are more than the {evaluations} evaluations; leave them out")
        domain = data.get("domain", _SEARCH_DOMAINS[0])
        known = tuple(START_FOLDERS) if test_tasks else _SEARCH_DOMAINS
        if domain not in known:
            self.add(
                f"domain: {domain!r} is none whose models search problems; {nearest_hint(str(domain), known)}"
            )
        start = data.get("start", "")
        names = [arm.name for arm in arms]
        references = self.names(data, "references", names, [])
        if not references:
            self.add(f"references: expected names of arms to compare with, of {names}, found none")
        return Study(
            path=self.path,
            folder=folder,
            name=self.name(data),
            domain=str(domain),
            start=(self.path.parent / start).resolve()
            if isinstance(start, str) and start
            else START_FOLDERS.get(str(domain), Path()),
            problems=self.problems(data) if runs and not test_tasks else (),
            evaluations=evaluations,
            ks=tuple(sorted(ks)),
            references=references,
            budget=TrainingBudget(
                tokens,
                self.whole(training, "prompts", 8, "training"),
                self.whole(training, "tasks", 1000, "training"),
            ),
            learning_rates=self.rates(tuning, "learning_rates", (1e-4, 3e-4), "tuning"),
            kls=self.rates(tuning, "kls", (0.0, 0.05, 0.2), "tuning"),
            tuning_tasks=self.whole(tuning, "tasks", 60, "tuning"),
            test_tasks=test_tasks,
            seeds=seeds,
            strategies=strategies,
            arms=arms,
        )

    def _strategies(self, data: Mapping[str, Any]) -> tuple[Strategy, ...]:
        found = []
        for number, entry in enumerate(self.tables(data, "strategies"), 1):
            name = self.name(entry, f"strategies {number}")
            where = f"strategies {number} ({name})"
            settings = {key: part for key, part in entry.items() if key not in _STRATEGY_KEYS}
            found.append(
                Strategy(
                    name,
                    self.whole(entry, "answers_per_ask", 12, where),
                    self.settings(settings, where),
                    self._listed(entry, "arms", where),
                    self.whole(entry, "seeds", 0, where, least=0),
                )
            )
        self.different([strategy.name for strategy in found], "strategies")
        if not any(strategy.is_independent for strategy in found):
            self.add(
                'strategies: none has search.strategy = "iid"; best@k comes from independent answers: add one'
            )
        return tuple(found)

    def _arms(
        self,
        data: Mapping[str, Any],
        tokens: int,
        seeds: int,
        evaluations: int,
        strategies: Sequence[Strategy],
    ) -> tuple[StudyArm, ...]:
        entries = self.tables(data, "arms")
        if any(entry.get("tokens", tokens) != tokens for entry in entries):
            listed = ", ".join(f"{one.get('name')}: {one['tokens']}" for one in entries if "tokens" in one)
            self.add(
                f"arms: other token budgets than training.tokens = {tokens} ({listed}); arms are compared at "
                "equal tokens: give all the same"
            )
        arms = tuple(
            self._arm(f"arms {number}", entry, seeds, evaluations, strategies)
            for number, entry in enumerate(entries, 1)
        )
        self.different([arm.name for arm in arms], "arms")
        names = {arm.name: arm for arm in arms}
        for strategy in strategies:
            self.names({"arms": list(strategy.arms)}, "arms", [*names], [], f"strategy {strategy.name}")
        for arm in arms:
            where = f"arm {arm.name}"
            other = names.get(arm.tuned_as)
            if arm.tuned_as and (other is None or not other.is_trained_before or other.tuned_as):
                self.add(f"tuned_as: {arm.tuned_as!r} is no arm that is tuned; name one that is", where)
            self.names({"references": list(arm.references)}, "references", [*names], [], where)
            if arm.rounds and not arm.tuned_as:
                self.add("trains while it searches; name in tuned_as whose settings it takes", where)
        return arms

    def _arm(
        self,
        place: str,
        entry: Mapping[str, Any],
        seeds: int,
        evaluations: int,
        strategies: Sequence[Strategy],
    ) -> StudyArm:
        name = self.name(entry, place)
        where = f"arm {name}"
        self.known(entry, _ARM_KEYS, f"{place} ({name})")
        objective, model = entry.get("objective"), entry.get("model")
        if (objective is None) == (model is None):
            both = "both" if model is not None else "neither"
            self.add(
                "has no policy of its own: expected objective (it is trained) or model (start, or a folder), "
                f"found {both}",
                where,
            )
        answers = self.whole(entry, "answers", 1, where)
        folder = ""
        if model is not None:
            folder = START if model == START else str((self.path.parent / str(model)).resolve())
            if folder != START and not Path(folder, "config.json").is_file():
                self.add(
                    f"model: {folder}: expected a folder with config.json, found none; correct it", where
                )
        search_answers = self.whole(entry, "search_answers", answers, where)
        known = [one.name for one in strategies if not one.arms or name in one.arms]
        wanted = self.names(entry, "strategies", known, known, where)
        for strategy in strategies:
            if strategy.name in wanted and strategy.answers_per_ask % search_answers:
                self.add(
                    f"asks for {search_answers} answers a completion, of which {strategy.answers_per_ask} "
                    f"answers an ask of {strategy.name} is no multiple; change one",
                    where,
                )
        rounds = self.whole(entry, "while_searching", 0, where, least=0)
        if rounds and objective is None:
            self.add("while_searching: there is no objective to train by; give one", where)
        return StudyArm(
            name=name,
            arm=None if objective is None else self._trained(entry, str(objective), answers, where),
            model=folder,
            search_answers=search_answers,
            seeds=self.whole(entry, "seeds", seeds, where),
            tuned_as=str(entry.get("tuned_as", "")),
            rounds=rounds,
            strategies=tuple(one for one in known if one in wanted),
            evaluations=self.whole(entry, "evaluations", evaluations, where),
            references=self._listed(entry, "references", where),
        )

    def _listed(self, entry: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
        """Return names of arms, which may not be known yet."""
        is_list = lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value)  # noqa: E731
        return tuple(self.checked(entry, key, [], "names of arms", is_list, where))

    def _trained(self, entry: Mapping[str, Any], objective: str, answers: int, where: str) -> Arm:
        if objective not in OBJECTIVES:
            self.add(f"objective: {objective!r} is none; {nearest_hint(objective, OBJECTIVES)}", where)
        is_table = lambda value: isinstance(value, Mapping)  # noqa: E731
        return Arm(
            name="",
            objective=objective,
            answers=answers,
            rollouts=self.whole(entry, "rollouts", 24 // answers, where, least=2),
            settings=dict(self.checked(entry, "settings", {}, "a table", is_table, where)),
            entropy=self.number(entry, "entropy", where),
            single_share=self.number(entry, "single_share", where),
            parent_share=self.number(entry, "parent_share", where, most=0.5),
            passes=self.whole(entry, "passes", 1, where),
        )
