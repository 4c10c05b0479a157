"""Options that do not exist but are often tried, with what to use instead."""

from collections.abc import Sequence

from evovpo.errors import ConfigError

_HINTS = {
    ("evolve", "--evaluator-args"): "use: --set evaluator.arguments={...}",
    ("evolve", "--log-level"): "leave it out",
}


def refuse_unknown(arguments: Sequence[str]) -> None:
    """Raise `ConfigError` with a hint if a command line has such an option, or `--config` twice."""
    words = [argument.partition("=")[0] for argument in arguments]
    words = words[: words.index("--")] if "--" in words else words
    if len([word for word in words if word in ("--config", "-c")]) > 1:
        raise ConfigError("--config: expected one file, found two; give one")
    command = next((word for word in words if not word.startswith("-")), "")
    for option in words:
        if hint := _HINTS.get((command, option)):
            raise ConfigError(f"evovpo {command} {option} does not exist; {hint}")
