"""What a study consists of: its TOML file, its arms and strategies, and all that is wrong with them."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evovpo.builtin import BUILT_IN_MODEL
from evovpo.errors import ConfigError, StoreError, nearest_hint
from evovpo.experiments.plan import raise_faults, read_numbers, read_problems, read_settings
from evovpo.store import Store
from evovpo.types import Json
from trainer.experiments.arms import Arm, TrainingBudget
from trainer.objectives import OBJECTIVES

START = "start"
"""What `model` of an arm says for the start model of the study."""
_KEYS = (
    "name", "description", "domain", "start", "problems", "evaluations", "seeds", "ks", "references",
    "training", "tuning", "strategies", "arms",
)  # fmt: skip
_ARM_KEYS = (
    "name", "model", "objective", "settings", "answers", "rollouts", "entropy", "single_share",
    "parent_share", "passes", "search_answers", "tuned_as", "tokens", "seeds", "while_searching",
    "strategies", "evaluations", "references",
)  # fmt: skip
_STRATEGY_KEYS = ("name", "answers_per_ask", "arms", "seeds")
_DOMAINS = ("strings",)
"""Those whose trained models can search problems by example."""


@dataclass(frozen=True)
class StudyArm:
    """One way to get a proposer, with what the study does with it."""

    name: str
    arm: Arm | None
    """What is trained, without learning rate and KL; none for a given model."""
    model: str
    """`start`, or a model folder; empty for an arm that is trained."""
    search_answers: int
    """M, answers asked for in one completion of a search."""
    seeds: int
    """Trainings, each searched with once a strategy; of a given model, searches a strategy."""
    tuned_as: str
    """Another arm, whose learning rate and KL this one takes; empty for one that is tuned itself."""
    rounds: int
    """Trainings while it searches; 0 for an arm that is trained before."""
    strategies: tuple[str, ...]
    """In the order of the file."""
    evaluations: int
    """Of one search; other than the study's only to give an arm the compute of another."""
    references: tuple[str, ...]
    """Arms that it is compared with besides the study's references."""

    @property
    def is_trained_before(self) -> bool:
        """True if its model comes of a training on the domain's tasks."""
        return self.arm is not None and not self.rounds


@dataclass(frozen=True)
class Strategy:
    """One way to search."""

    name: str
    answers_per_ask: int
    """M·G of every ask, the same for all arms."""
    settings: Mapping[str, object]
    """Sections with keys, as in a configuration file."""
    arms: tuple[str, ...]
    """Those that search with it; empty for all."""
    seeds: int
    """Most seeds of an arm that search with it; 0 for all."""

    @property
    def is_independent(self) -> bool:
        """True if its evaluations are independent draws, from which best@k can be estimated."""
        search = self.settings.get("search")
        return isinstance(search, Mapping) and search.get("strategy") == "iid"


@dataclass(frozen=True)
class Study:
    """A study as its file says."""

    path: Path
    name: str
    domain: str
    start: Path
    problems: tuple[Path, ...]
    evaluations: int
    ks: tuple[int, ...]
    references: tuple[str, ...]
    """Arms that others are compared with; of the first one it is said what others unlock against it."""
    budget: TrainingBudget
    learning_rates: tuple[float, ...]
    kls: tuple[float, ...]
    tuning_tasks: int
    strategies: tuple[Strategy, ...]
    """The first is the one that `solved_by_search` and `unlocked` speak of."""
    arms: tuple[StudyArm, ...]

    def arm(self, name: str) -> StudyArm:
        """Return an arm by name."""
        return next(arm for arm in self.arms if arm.name == name)

    def strategy(self, name: str) -> Strategy:
        """Return a strategy by name."""
        return next(strategy for strategy in self.strategies if strategy.name == name)

    def search_seeds(self, arm: StudyArm, strategy: str) -> range:
        """Return the seeds of an arm that search with a strategy."""
        return range(min(arm.seeds, self.strategy(strategy).seeds or arm.seeds))

    @property
    def folder(self) -> Path:
        """Where the file lies, and the export and the report beside it."""
        return self.path.parent

    def resolved(self) -> dict[str, Json]:
        """Return what rows of the export depend on, by what they belong to: the same names, the same rows."""
        found: dict[str, Json] = {
            "training": {
                "domain": self.domain,
                "start": start_digest(self.start),
                **self.budget._asdict(),
                "tuning_tasks": self.tuning_tasks,
            },
        }
        for strategy in self.strategies:
            settings = {section: dict(values) for section, values in strategy.settings.items()}  # type: ignore[call-overload]
            found[f"strategy {strategy.name}"] = {"answers_per_ask": strategy.answers_per_ask, **settings}
        for arm in self.arms:
            found[f"arm {arm.name}"] = {
                "trained": recipe(arm.arm) if arm.arm is not None else "",
                "model": arm.model if arm.model in ("", START) else start_digest(Path(arm.model)),
                "tuned_as": arm.tuned_as,
                "while_searching": arm.rounds,
                "search_answers": arm.search_answers,
                "evaluations": arm.evaluations,
            }
        return found


def recipe(arm: Arm) -> str:
    """Return in a word what an arm chooses for its training but learning rate and KL, without defaults."""
    parts = [f"{arm.objective}-m{arm.answers}x{arm.rollouts}"]
    parts += [f"{name}{value:g}" for name, value in sorted(arm.settings.items())]
    for field, plain in (("single_share", 0.0), ("parent_share", 0.0), ("entropy", 0.0), ("passes", 1)):
        value = getattr(arm, field)
        if value != plain:
            parts.append(f"{field.replace('_', '-')}{value:g}")
    return "-".join(parts)


def start_digest(folder: Path) -> str:
    """Return a hash of a model's weights. Raises `ConfigError` if there are none."""
    weights = folder / "model.safetensors"
    try:
        return hashlib.sha256(weights.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise ConfigError(
            f"start: {folder}: expected a model folder with model.safetensors ({error.strerror}); make it, "
            "or name another"
        ) from error


def store_url(work: Path) -> str:
    """Return the store of a study's searches."""
    return f"sqlite:///{(work / 'study.db').resolve()}"


def read_study(path: Path, *, runs: bool, work: Path | None = None) -> Study:
    """Return the study of a file; with `runs` what it needs to run must be there too.

    A store that lies in `work` must be usable. Raises `ConfigError` naming everything that is wrong.
    """
    faults: list[str] = []
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{path}: expected a study file that can be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: expected TOML in UTF-8: {error}") from error
    study = _Reader(path, faults).study(data, runs)
    if work is not None and (work / "study.db").exists():
        try:
            Store.open(store_url(work), create=False).close()
        except StoreError as error:
            faults.append(str(error))
    if runs and not study.start.joinpath("model.safetensors").is_file():
        faults.append(
            f"{path}: start: {study.start}: expected a model folder with model.safetensors, found none; make "
            "it, or name another"
        )
    raise_faults(faults)
    return study


class _Reader:
    """Reads the parts of a study file and collects what is wrong with each."""

    def __init__(self, path: Path, faults: list[str]) -> None:
        self._path = path
        self._faults = faults

    def study(self, data: Mapping[str, Any], runs: bool) -> Study:
        self._known(data, _KEYS, str(self._path))
        training = self._table(data, "training", ("tokens", "prompts", "tasks"))
        tuning = self._table(data, "tuning", ("learning_rates", "kls", "tasks"))
        tokens = self._whole(training, "tokens", 120_000, "training.")
        seeds = self._whole(data, "seeds", 3)
        evaluations = self._whole(data, "evaluations", 600)
        strategies = self._strategies(data.get("strategies"))
        arms = self._arms(data.get("arms"), tokens, seeds, evaluations, strategies)
        references = self._references(data.get("references"), arms)
        ks = read_numbers(data.get("ks", [1, 3, 10, 30, 96]), f"{self._path}: ks", 1, self._faults)
        too_large = [k for k in ks if k > evaluations]
        if too_large:
            self._add(f"ks: {too_large} are more than the {evaluations} evaluations; leave them out")
        domain = data.get("domain", _DOMAINS[0])
        if domain not in _DOMAINS:
            self._add(
                f"domain: {domain!r} is none whose models search problems; "
                f"{nearest_hint(str(domain), _DOMAINS)}"
            )
        start = data.get("start", "")
        folder = (self._path.parent / start).resolve() if isinstance(start, str) and start else BUILT_IN_MODEL
        return Study(
            path=self._path,
            name=self._text(data, "name", str(self._path)),
            domain=str(domain),
            start=folder,
            problems=read_problems(data.get("problems"), self._path, self._faults) if runs else (),
            evaluations=evaluations,
            ks=tuple(sorted(ks)),
            references=references,
            budget=TrainingBudget(
                tokens,
                self._whole(training, "prompts", 8, "training."),
                self._whole(training, "tasks", 1000, "training."),
            ),
            learning_rates=self._rates(tuning, "learning_rates", (1e-4, 3e-4)),
            kls=self._rates(tuning, "kls", (0.0, 0.05, 0.2)),
            tuning_tasks=self._whole(tuning, "tasks", 60, "tuning."),
            strategies=strategies,
            arms=arms,
        )

    def _add(self, fault: str) -> None:
        self._faults.append(f"{self._path}: {fault}")

    def _known(self, table: Mapping[str, Any], known: Sequence[str], where: str) -> None:
        self._faults += [
            f"{where}: unknown key {key!r}; {nearest_hint(key, known)}" for key in table if key not in known
        ]

    def _table(self, data: Mapping[str, Any], key: str, known: Sequence[str]) -> Mapping[str, Any]:
        table = data.get(key, {})
        if not isinstance(table, Mapping):
            self._add(f"{key}: expected a [{key}] table, found {table!r:.80}")
            return {}
        self._known(table, known, f"{self._path}: [{key}]")
        return table

    def _text(self, table: Mapping[str, Any], key: str, where: str) -> str:
        value = table.get(key)
        if isinstance(value, str) and value.strip() and value.isprintable() and len(value) <= 100:
            return value
        self._faults.append(
            f"{where}: {key}: expected a short text, found {value!r:.80}; rows are told apart by it"
        )
        return ""

    def _checked(
        self,
        table: Mapping[str, Any],
        key: str,
        default: Any,
        where: str,
        what: str,
        is_fit: Callable[[Any], bool],
    ) -> Any:
        value = table.get(key, default)
        if is_fit(value):
            return value
        self._add(f"{where}{key}: expected {what}, found {value!r:.80}; change it")
        return default

    def _whole(
        self, table: Mapping[str, Any], key: str, default: int, where: str = "", least: int = 1
    ) -> int:
        found: int = self._checked(
            table,
            key,
            default,
            where,
            f"a whole number, {least} or more",
            lambda value: type(value) is int and value >= least,
        )
        return found

    def _share(self, table: Mapping[str, Any], key: str, where: str, most: float = 1.0) -> float:
        return float(
            self._checked(
                table, key, 0.0, where, f"a number from 0 to {most:g}",
                lambda value: type(value) in (int, float) and 0 <= value <= most,
            )
        )  # fmt: skip

    def _rates(self, table: Mapping[str, Any], key: str, default: tuple[float, ...]) -> tuple[float, ...]:
        value = self._checked(
            table, key, default, "tuning.", "different numbers, 0 or more",
            lambda values: isinstance(values, list | tuple) and 0 < len(values) == len(set(values))
            and all(type(one) in (int, float) and one >= 0 for one in values),
        )  # fmt: skip
        return tuple(float(one) for one in value)

    def _names(self, table: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
        return tuple(
            self._checked(
                table, key, [], where, "names of arms",
                lambda names: isinstance(names, list) and all(isinstance(name, str) for name in names),
            )
        )  # fmt: skip

    def _strategies(self, value: object) -> tuple[Strategy, ...]:
        if not (isinstance(value, list) and value and all(isinstance(entry, Mapping) for entry in value)):
            self._add(f"strategies: expected [[strategies]] tables, found {value!r:.80}")
            return ()
        found = []
        for number, entry in enumerate(value, 1):
            where = f"{self._path}: strategies {number}"
            name = self._text(entry, "name", where)
            settings = {key: part for key, part in entry.items() if key not in _STRATEGY_KEYS}
            found.append(
                Strategy(
                    name,
                    self._whole(entry, "answers_per_ask", 12, f"strategies {number} ({name}): "),
                    read_settings(settings, f"{where} ({name})", self._faults),
                    self._names(entry, "arms", f"strategies {number} ({name}): "),
                    self._whole(entry, "seeds", 0, f"strategies {number} ({name}): ", least=0),
                )
            )
        self._different([strategy.name for strategy in found], "strategies")
        if not any(strategy.is_independent for strategy in found):
            self._add(
                'strategies: none has search.strategy = "iid"; best@k comes from independent answers: add one'
            )
        return tuple(found)

    def _arms(
        self, value: object, tokens: int, seeds: int, evaluations: int, strategies: Sequence[Strategy]
    ) -> tuple[StudyArm, ...]:
        if not (isinstance(value, list) and value and all(isinstance(entry, Mapping) for entry in value)):
            self._add(f"arms: expected [[arms]] tables, found {value!r:.80}")
            return ()
        budgets = {
            self._whole(entry, "tokens", tokens, "arms: ") for entry in value if entry.get("objective")
        }
        if len(budgets | {tokens}) > 1:
            listed = ", ".join(
                f"{entry.get('name')}: {entry['tokens']}" for entry in value if "tokens" in entry
            )
            self._add(
                f"arms: other token budgets than training.tokens = {tokens} ({listed}); arms are compared at "
                "equal tokens: give all the same"
            )
        arms = [
            self._arm(number, entry, seeds, evaluations, strategies) for number, entry in enumerate(value, 1)
        ]
        self._different([arm.name for arm in arms], "arms")
        names = {arm.name: arm for arm in arms}
        for strategy in strategies:
            unknown = [name for name in strategy.arms if name not in names]
            if unknown:
                self._add(f"strategy {strategy.name}: arms: {unknown} are none; correct them")
        for arm in arms:
            other = names.get(arm.tuned_as)
            if arm.tuned_as and (other is None or not other.is_trained_before or other.tuned_as):
                self._add(
                    f"arm {arm.name}: tuned_as: {arm.tuned_as!r} is no arm that is tuned; name one that is"
                )
            unknown = [name for name in arm.references if name not in names]
            if unknown:
                self._add(f"arm {arm.name}: references: {unknown} are no arms; correct them")
            if arm.rounds and not arm.tuned_as:
                self._add(
                    f"arm {arm.name}: trains while it searches; name in tuned_as whose settings it takes"
                )
        return tuple(arms)

    def _arm(
        self,
        number: int,
        entry: Mapping[str, Any],
        seeds: int,
        evaluations: int,
        strategies: Sequence[Strategy],
    ) -> StudyArm:
        name = self._text(entry, "name", f"{self._path}: arms {number}")
        where = f"arm {name}: "
        self._known(entry, _ARM_KEYS, f"{self._path}: arms {number} ({name})")
        objective, model = entry.get("objective"), entry.get("model")
        if (objective is None) == (model is None):
            both = "both" if model is not None else "neither"
            self._add(
                f"{where}has no policy of its own: expected objective (it is trained) or model (start, or a "
                f"folder), found {both}"
            )
        answers = self._whole(entry, "answers", 1, where)
        arm = None
        if objective is not None:
            if objective not in OBJECTIVES:
                self._add(
                    f"{where}objective: {objective!r} is none; {nearest_hint(str(objective), OBJECTIVES)}"
                )
            settings = entry.get("settings", {})
            if not isinstance(settings, Mapping):
                self._add(f"{where}settings: expected a table, found {settings!r:.80}")
                settings = {}
            arm = Arm(
                name="",
                objective=str(objective),
                answers=answers,
                rollouts=self._whole(entry, "rollouts", 24 // answers, where, least=2),
                settings=dict(settings),
                entropy=self._share(entry, "entropy", where),
                single_share=self._share(entry, "single_share", where),
                parent_share=self._share(entry, "parent_share", where, most=0.5),
                passes=self._whole(entry, "passes", 1, where),
            )
        folder = ""
        if model is not None:
            folder = START if model == START else str((self._path.parent / str(model)).resolve())
            if folder != START and not Path(folder, "config.json").is_file():
                self._add(
                    f"{where}model: {folder}: expected a folder with config.json, found none; correct it"
                )
        search_answers = self._whole(entry, "search_answers", answers, where)
        known = [one.name for one in strategies if not one.arms or name in one.arms]
        wanted = entry.get("strategies", known)
        if not (isinstance(wanted, list) and wanted and all(one in known for one in wanted)):
            self._add(f"{where}strategies: expected names of {known}, found {wanted!r:.80}; correct it")
            wanted = known
        self._faults += [
            f"{self._path}: {where}asks for {search_answers} answers a completion, of which "
            f"{strategy.answers_per_ask} answers an ask of {strategy.name} is no multiple; change one"
            for strategy in strategies
            if strategy.name in wanted and strategy.answers_per_ask % search_answers
        ]
        rounds = self._whole(entry, "while_searching", 0, where, least=0)
        if rounds and objective is None:
            self._add(f"{where}while_searching: there is no objective to train by; give one")
        return StudyArm(
            name=name,
            arm=arm,
            model=folder,
            search_answers=search_answers,
            seeds=self._whole(entry, "seeds", seeds, where),
            tuned_as=str(entry.get("tuned_as", "")),
            rounds=rounds,
            strategies=tuple(one for one in known if one in wanted),
            evaluations=self._whole(entry, "evaluations", evaluations, where),
            references=self._names(entry, "references", where),
        )

    def _references(self, value: object, arms: Sequence[StudyArm]) -> tuple[str, ...]:
        names = [arm.name for arm in arms]
        if isinstance(value, list) and value and all(name in names for name in value):
            return tuple(value)
        self._add(f"references: expected names of arms to compare with, of {names}, found {value!r:.80}")
        return ()

    def _different(self, names: Sequence[str], what: str) -> None:
        for name in sorted({name for name in names if names.count(name) > 1}):
            self._add(f"{what}: {name!r} is there twice; rows are told apart by it: rename one")
