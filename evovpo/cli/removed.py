"""Removed commands and options with their replacements."""

from collections.abc import Sequence

from evovpo.errors import ConfigError

_REMOVED = {
    ("", "--openevolve-config"): "use: --config FILE.yaml, or --config none",
    ("bounds", ""): "use: evovpo check --bounds RUN",
    ("prompts", ""): "use: evovpo check PROBLEM --prompts, or evovpo check --write-prompts FOLDER",
    ("report", ""): "use: evovpo batch FILE --report-only",
    ("pose", ""): "use a few lines of Python: docs/domains.md, Answers as candidates",
    **dict.fromkeys(
        [("import-tasks", "humaneval"), ("import-tasks", "mbpp"), ("import-tasks", "psb2")],
        "write rows of inputs and output as a JSON Lines file, and use: evovpo new NAME --from FILE.jsonl",
    ),
    **dict.fromkeys([("doctor", "--png"), ("doctor", "--no-png")], "it draws nothing: leave it out"),
    **dict.fromkeys([("", "--side-by-side"), ("", "--half")], "searches and trainings take turns"),
    ("evolve", "--evaluator-args"): "use: --set evaluator.arguments={...}",
    **dict.fromkeys(
        [("evolve", "--log-level"), ("evolve", "--logger-prefix")], "it belongs to OpenEvolve: leave it out"
    ),
    ("", "--metrics"): "use: --set evaluator.metrics=FILE",
    ("", "--initial-program"): "use: --set evaluator.initial_program=FILE",
    ("evolve", "--seeds"): "use: evovpo batch FILE, whose seeds are those of a TOML file (docs/batch.md)",
    ("resume", "--verify"): "a run is always resumed from all its rows: leave it out",
    ("study", "--tokens"): "use: --set training.tokens=N",
    ("study", "--prompts"): "use: --set training.prompts=P",
    ("study", "--learning-rates"): "use: --set tuning.learning_rates=[A,B]",
    ("study", "--kls"): "use: --set tuning.kls=[A,B]",
    ("study", "--validation-tasks"): "use: --set tuning.tasks=N",
    ("study", "--test-tasks"): "use: --set test.tasks=N (test=N for a recipe)",
    ("study", "--largest-k"): "use: --set ks=[1,3,K]",
}


def refuse_removed(arguments: Sequence[str]) -> None:
    """Raise `ConfigError` with the replacement if a command line uses a removed command or option."""
    words = [argument.partition("=")[0] for argument in arguments]
    words = words[: words.index("--")] if "--" in words else words
    if len([word for word in words if word in ("--config", "-c")]) > 1:
        raise ConfigError("--config: expected one file, found two; put all into one, or some into --set")
    command = next((word for word in words if not word.startswith("-")), "")
    for option in ("", *words):
        if hint := _REMOVED.get((command, option)) or _REMOVED.get(("", option)):
            name = f"evovpo {command} {option}".rstrip()
            raise ConfigError(f"{name} does not exist; {hint}")
