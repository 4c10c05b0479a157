"""The command `evovpo measure`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from evovpo.cli import options
from evovpo.cli.options import option
from evovpo.cli.terminal import print_json, say, show_answer
from evovpo.errors import ConfigError
from trainer.cli.policies import check_installed
from trainer.cli.train import Data, Dates, DomainName, Ks, numbers, settings_of

if TYPE_CHECKING:
    from trainer.domains.domain import Split


def measure(
    domain: DomainName,
    model: Annotated[
        list[str] | None,
        option(
            "FOLDER",
            "Model: a folder or Hugging Face name; with --base-url, its name at the server. Repeat it to "
            "compare several.",
            default="the domain's start model",
        ),
    ] = None,
    data: Data = None,
    base_url: Annotated[
        str | None,
        option("URL", "OpenAI-compatible server: its address, ending in /v1; its key is in OPENAI_API_KEY."),
    ] = None,
    answers: Annotated[int, option("M", "Answers in one completion.", min=1)] = 1,
    ks: Ks = "1,3,6,12,24",
    prompts: Annotated[int, option("N", "Number of prompts.", min=1)] = 64,
    temperature: Annotated[
        list[float] | None,
        option("T", "Sampling temperature; repeat it to compare several.", min=0.01, default="1"),
    ] = None,
    top_p: Annotated[
        float, option("P", "Nucleus sampling: probability mass to sample from; 1 is off.")
    ] = 1.0,
    top_k: Annotated[
        int, option("N", "Top-k sampling: number of tokens to sample from; 0 is off.", min=0)
    ] = 0,
    repetition_penalty: Annotated[
        float, option("R", "Repetition penalty; above 1 makes repeated tokens less likely.")
    ] = 1.0,
    template: Annotated[
        list[str] | None,
        option("KEY=VALUE", "Chat template argument, for example enable_thinking=false."),
    ] = None,
    dates: Dates = "",
    seed: Annotated[int, option("S", "Random seed.", min=0)] = 0,
    png: options.Png = None,
    no_png: options.NoPng = False,
    as_json: options.AsJson = False,
) -> None:
    """Measure the rewards of models on a domain, with 95 % intervals over the prompts.

    The largest value of --k is the number of answers sampled per prompt. A model's generation_config.json is
    ignored.
    Bundled domains use their test tasks; with --data, give rows that were not used for training.
    --json prints the results of each prompt.

    [dim]Examples:[/dim]  evovpo measure --domain maze-conflict
               evovpo measure --domain maze-conflict --model trained --temperature 0.7 --temperature 1
               evovpo measure --domain own.py --data test.jsonl --model start --model trained
               evovpo measure --domain musique --data dev.jsonl --model NAME --base-url http://127.0.0.1:8000/v1
    """
    check_installed()
    from evovpo.reports.live import WorkBar
    from trainer.cli.progress import quiet
    from trainer.domains.catalogue import GENERATED, open_domain
    from trainer.domains.policy_figures import measure_policies
    from trainer.domains.sampling import Ask
    from trainer.reports.domains import figures_json, figures_view, write_figures_png

    if base_url and not model:
        raise ConfigError("--base-url: name the model that the server has with --model")
    split: Split | None = "test" if domain in GENERATED else None
    ask = Ask(1, 1.0, seed, top_p, top_k, repetition_penalty, template=settings_of(template, "--template"))
    counts, bar = numbers("--k", ks), WorkBar()

    with bar, quiet(), open_domain(domain, data, answers, split=split, tasks=prompts, dates=dates) as opened:

        def told(name: str, done: int) -> None:
            bar.show(f"measuring {name}", done, len(opened.prompts))

        found = measure_policies(opened, model or (), counts, ask, temperature or [1.0], base_url, told)
    picture = None if no_png or (as_json and png is None) else options.written_to(png, "measure.png")
    if picture is not None:
        write_figures_png(picture, found, domain)
    if as_json:
        print_json(figures_json(found))
        return
    show_answer(figures_view(found, domain))
    if picture is not None:
        say(f"Picture written to {picture}")
