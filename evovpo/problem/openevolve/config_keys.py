"""Maps each key of OpenEvolve's configuration to a setting, or to the reason why it has no effect."""

import math
from collections.abc import Callable
from dataclasses import asdict
from operator import attrgetter
from typing import Any

PROMPTS = "prompt.openevolve"
OFF_BY_NULL = (
    *("suggest_simplification_after_chars", "include_changes_under_chars"),
    *("concise_implementation_max_lines", "comprehensive_implementation_min_lines"),
)
"""Keys of section `prompt` for which an empty value means off."""
_NAMES = (
    *("num_top_programs", "num_diverse_programs", "template_dir", "use_template_stochasticity"),
    *("template_variations", "code_length_threshold"),
)
NO_JUDGE = "judgements come from the evaluator alone, without evaluator.use_llm_feedback"


def _elites(config: Any) -> int:
    size, islands = int(config.database.archive_size), int(config.database.num_islands)
    return max(1, math.ceil(size / max(1, islands)))


def _ways(config: Any) -> dict[str, float]:
    explores, climbs = float(config.database.exploration_ratio), float(config.database.exploitation_ratio)
    rest = max(0.0, 1.0 - explores - climbs)
    others = {"combine": round(0.5 * rest, 6), "repair": round(0.3 * rest, 6), "fresh": round(0.2 * rest, 6)}
    return {"climb": max(0.0, climbs), "explore": max(0.0, explores), **others}


def _their_prompts(config: Any) -> dict[str, object] | None:
    prompt = config.prompt
    if not prompt.template_dir and not (prompt.use_template_stochasticity and prompt.template_variations):
        return None
    usual = asdict(type(prompt)())
    changed = {name: value for name, value in asdict(prompt).items() if value != usual[name]}
    return {name: changed[name] for name in changed if f"prompt.{name}" not in WITHOUT_EFFECT}


_SETTINGS = {
    "max_iterations": "search.evaluations",
    "random_seed": "run.seed",
    "diff_based_evolution": "prompt.style",
    "early_stopping_patience": "search.patience",
    "llm.api_base": "proposer.base_url",
    "llm.temperature": "sampling.temperature",
    "llm.max_tokens": "sampling.max_tokens",
    "llm.timeout": "proposer.timeout_seconds",
    "llm.retries": "proposer.attempts",
    **{f"prompt.{name}": PROMPTS for name in (*_NAMES, *OFF_BY_NULL)},
    "enforce_evolve_blocks": "prompt.enforce_blocks",
    "prompt.include_artifacts": "evaluator.artifacts",
    "database.num_islands": "search.islands",
    "database.migration_interval": "search.migration_interval",
    "database.archive_size": "search.elites",
    "database.migration_rate": "search.migration_rate",
    "database.exploration_ratio": "search.ways",
    "database.exploitation_ratio": "search.ways",
    "evaluator.timeout": "evaluator.timeout_seconds",
    "evaluator.memory_limit_mb": "evaluator.memory_mb",
    "evaluator.cascade_evaluation": "evaluator.thresholds",
    "evaluator.cascade_thresholds": "evaluator.thresholds",
    "evaluator.parallel_evaluations": "sandbox.workers",
    "evaluator.enable_artifacts": "evaluator.artifacts",
    "evaluator.evaluator_args": "evaluator.arguments",
}
_CONVERTED: dict[str, Callable[[Any], object]] = {
    "prompt.style": lambda c: "diff" if c.diff_based_evolution else "rewrite",
    # In OpenEvolve a negative patience means: stop when a score equals the threshold.
    "search.patience": lambda c: c.early_stopping_patience if c.early_stopping_patience > 0 else None,
    "proposer.attempts": lambda c: c.llm.retries + 1,
    PROMPTS: _their_prompts,
    "evaluator.artifacts": lambda c: c.prompt.include_artifacts and c.evaluator.enable_artifacts,
    "search.elites": _elites,
    "search.ways": _ways,
    "evaluator.thresholds": lambda c: [
        float(one) for one in c.evaluator.cascade_thresholds if c.evaluator.cascade_evaluation
    ],
}
MAPPED: dict[str, tuple[str, Callable[[Any], object]]] = {
    key: (setting, _CONVERTED.get(setting, attrgetter(key))) for key, setting in _SETTINGS.items()
}
"""Key -> setting of evovpo, and a function that reads the setting's value from the loaded configuration."""
_WHY_WITHOUT_EFFECT = {
    "every evaluation is stored immediately": "checkpoint_interval checkpoint_on_improvement",
    "the store has every call, program and evaluation": (
        "log_level log_dir logger_prefix database.log_prompts database.artifacts_base_path "
        "database.artifact_size_threshold database.cleanup_old_artifacts "
        "database.artifact_retention_days evolution_trace.enabled evolution_trace.format "
        "evolution_trace.include_code evolution_trace.include_prompts evolution_trace.include_failures "
        "evolution_trace.output_path "
        "evolution_trace.buffer_size evolution_trace.compress"
    ),
    "it follows from the initial program's file extension": "language",
    "the initial program's file extension is kept": "file_suffix",
    "sampling.max_tokens limits a program's length": "max_code_length",
    "only the usual SEARCH/REPLACE format is read": "diff_pattern",
    "any improvement counts": "convergence_threshold",
    "search.target and search.patience use the score of the best program": "early_stopping_metric",
    "each evaluation has its own process": "max_tasks_per_child",
    "only OpenAI-compatible servers are asked": (
        "llm.provider llm.init_client llm.max_ai_credits llm.allow_all_tools llm.manual_mode"
    ),
    "models are named in llm.models or llm.primary_model": "llm.name",
    "weights are those of [[models]]": "llm.weight",
    "waits double or follow Retry-After, up to proposer.patience_seconds": "llm.retry_delay",
    "sampling seeds derive from run.seed": "llm.random_seed",
    "it limits a single call of another client; see [budget]": "llm.max_budget_usd",
    NO_JUDGE: ("llm.evaluator_models evaluator.use_llm_feedback evaluator.llm_feedback_weight"),
    "programs are shown in full": (
        "prompt.programs_as_changes_description prompt.system_message_changes_description "
        "prompt.initial_changes_description prompt.diff_summary_max_line_len prompt.diff_summary_max_lines"
    ),
    "OpenEvolve does not use it either": (
        "prompt.use_meta_prompting prompt.meta_prompt_weight prompt.evaluator_system_message "
        "evaluator.distributed"
    ),
    "artifacts are truncated and marked as untrusted text": "prompt.artifact_security_filter",
    "store.url names the database": "database.db_path database.in_memory",
    "search.elites and the number of cells limit an island": "database.population_size",
    "the ways to ask choose parents (search.ways)": "database.elite_selection_ratio",
    "diversity comes from reward vectors": "database.diversity_metric database.diversity_reference_size",
    "run.seed is the source of all randomness": "database.random_seed",
    "every prompt shows its parent's feedback": "database.max_snapshot_artifacts",
    "programs are not rejected for similarity": (
        "database.novelty_llm database.embedding_model database.embedding_api_base "
        "database.similarity_threshold"
    ),
    "a failed program is not retried; faults of the machine are": "evaluator.max_retries",
    "evaluator.timeout limits an evaluation": "evaluator.cpu_limit",
    "all islands start from the initial program": "database.island_initial_programs",
    "all islands have the same system message": "prompt.island_system_messages",
    "a run has one answer format (prompt.style)": "full_rewrite_probability",
    "feedback has 2,000 characters of them": "prompt.max_artifact_bytes evaluator.max_artifact_storage",
}
WITHOUT_EFFECT = {name: reason for reason, names in _WHY_WITHOUT_EFFECT.items() for name in names.split()}
KNOWN = {*MAPPED, *WITHOUT_EFFECT}

LEGACY_MODELS = ("primary_model", "primary_model_weight", "secondary_model", "secondary_model_weight")
OF_ONE_MODEL = (*LEGACY_MODELS, "top_p", "reasoning_effort")
"""Keys of section `llm` that name models, or whose values evovpo gives to each model separately."""
TOP_LEVEL_WORKERS = "parallel_evaluations"
OF_MODEL = {
    "api_base": "base_url",
    "temperature": "temperature",
    "max_tokens": "max_tokens",
    **dict.fromkeys(("top_p", "reasoning_effort"), "extra"),
}
"""OpenEvolve's name -> evovpo's name, for the settings that each model has."""
NO_SETTING = "no setting of OpenEvolve's; it ignores it too"
