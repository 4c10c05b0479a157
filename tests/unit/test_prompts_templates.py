"""Templates: what is put where, a folder of one's own, and which format a run takes."""

import dataclasses
from pathlib import Path

import pytest
from prompt_cases import EVALUATED, PARENT, SCORED
from toy_runs import PROBLEM

from evovpo.builtin import BUILT_IN_MODEL
from evovpo.builtin.strings.format import ExpressionFormat
from evovpo.config import Config
from evovpo.errors import ConfigError, ProblemError
from evovpo.prompts.instruct import DiffFormat, RewriteFormat
from evovpo.prompts.request import PromptRequest
from evovpo.prompts.templates import PLACES, Templates, load_templates, write_templates
from evovpo.runs.choices import choose_format, with_style
from evovpo.store import Store
from evovpo.types import PolicyVersion, Problem, Program, PromptKind


def config(*overrides: str) -> Config:
    return Config.load(None, Config.read_changes(overrides))


def filled(text: str, **values: str) -> str:
    return Templates({"it": text}).fill("it", values)


def test_places_are_filled_once_and_other_braces_are_text() -> None:
    assert filled("{a} {{b}} {not here} {}", a="{b} {{b}} \\1", b="x") == "{b} {{b}} \\1 {b} {not here} {}"


def test_a_paragraph_whose_places_are_all_empty_is_left_out() -> None:
    text = "Plain.\n\nTitle:\n{a}\n \n{a} and {b}\n\n{b}\n"
    assert filled(text, b="B") == "Plain.\n\n and B\n\nB"
    assert filled(text) == "Plain."


def test_the_templates_of_the_package_have_known_places_only(tmp_path: Path) -> None:
    files = write_templates(tmp_path / "mine")
    assert {file.stem for file in files} == set(PLACES)
    assert load_templates(str(tmp_path / "mine")) == load_templates()


def test_templates_are_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "root.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"found root\.txt"):
        write_templates(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["root.txt"]


def test_one_file_overrides_one_template(tmp_path: Path) -> None:
    (tmp_path / "mutate.txt").write_text("Mend:\n{parent}\n\n{answer}")
    (tmp_path / ".hidden").write_text("{x}")
    made_by = RewriteFormat(templates=load_templates(str(tmp_path)))
    request = PromptRequest(1, PromptKind.MUTATE, PARENT)
    assert made_by.messages(EVALUATED, request)[-1].content.startswith("Mend:\n```python\nimport math\n")
    assert made_by.messages(EVALUATED, PromptRequest(1)) == RewriteFormat().messages(
        EVALUATED, PromptRequest(1)
    )


def test_an_empty_system_template_leaves_the_message_out(tmp_path: Path) -> None:
    (tmp_path / "system.txt").write_text("\n")
    made_by = RewriteFormat(templates=load_templates(str(tmp_path)))
    assert [message.role for message in made_by.messages(SCORED, PromptRequest(1))] == ["user"]


def test_unknown_files_and_places_are_one_error_with_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "mutations.txt").write_text("x")
    (tmp_path / "root.txt").write_text("{statment} {answer} {{fine}}")
    (tmp_path / "system.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError) as raised:
        load_templates(str(tmp_path))
    lines = str(raised.value).splitlines()
    assert len(lines) == 3
    assert "mutations.txt: expected a template" in lines[0]
    assert "root.txt, mutate.txt" in lines[0]
    assert "unknown place {statment}; known: {statement}, {signature}" in lines[1]
    assert "system.txt: expected UTF-8" in lines[2]


def test_a_folder_that_is_none_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a folder"):
        load_templates(str(tmp_path / "nowhere"))


# Which format a run takes

LONG = dataclasses.replace(SCORED, seeds=(Program("def solve(x):\n    return x\n" + "# more\n" * 400),))
SERVER = ("proposer.name=openai",)


@pytest.mark.parametrize(
    ("problem", "overrides", "wanted"),
    [
        (PROBLEM, (), ExpressionFormat),
        (PROBLEM, SERVER, ExpressionFormat),
        (PROBLEM, (*SERVER, "proposer.endpoint=chat"), RewriteFormat),
        (PROBLEM, (*SERVER, "proposer.endpoint=completions"), ExpressionFormat),
        (PROBLEM, (*SERVER, "prompt.style=diff"), DiffFormat),
        (PROBLEM, ("prompt.style=rewrite",), RewriteFormat),
        (SCORED, SERVER, RewriteFormat),
        (SCORED, ("proposer.name=scripted",), RewriteFormat),
        (LONG, SERVER, DiffFormat),
        (LONG, (*SERVER, "prompt.style=rewrite"), RewriteFormat),
        (EVALUATED, SERVER, DiffFormat),
        (dataclasses.replace(SCORED, seeds=()), SERVER, RewriteFormat),
    ],
)
def test_the_format_fits_the_problem_and_the_proposer(
    problem: Problem, overrides: tuple[str, ...], wanted: type
) -> None:
    assert type(choose_format(problem, config(*overrides))) is wanted


@pytest.mark.parametrize(
    ("problem", "overrides", "wanted"),
    [
        (PROBLEM, (*SERVER, "proposer.model=m"), "rewrite"),
        (LONG, (*SERVER, "proposer.model=m"), "diff"),
        (PROBLEM, (*SERVER, "proposer.model=m", "prompt.style=alignment"), "alignment"),
        (PROBLEM, (*SERVER, f"proposer.model={BUILT_IN_MODEL}"), "alignment"),
        (PROBLEM, (*SERVER, f"proposer.model={BUILT_IN_MODEL}", "proposer.endpoint=chat"), "rewrite"),
        (PROBLEM, (*SERVER, "proposer.model=policy-v3-0123abcd"), "alignment"),
        (SCORED, (*SERVER, "proposer.model=policy-v3-0123abcd"), "rewrite"),
        (PROBLEM, (*SERVER, "proposer.model=m", "proposer.policy=served"), "alignment"),
        (PROBLEM, ("proposer.name=local",), "auto"),
        (PROBLEM, ("proposer.name=own",), "auto"),
    ],
)
def test_a_server_is_asked_in_the_built_in_models_style_only_for_policies_of_ours(
    problem: Problem, overrides: tuple[str, ...], wanted: str
) -> None:
    assert with_style(problem, config(*overrides)).prompt.style == wanted


def test_a_served_policy_that_was_trained_from_another_model_gets_instructions(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    settings = config(*SERVER, "proposer.model=m", "proposer.policy=served")
    with Store.open(f"sqlite:///{tmp_path}/runs.db") as store:
        for number, folder, wanted in ((1, tmp_path, "rewrite"), (2, BUILT_IN_MODEL, "alignment")):
            store.add_policy_version(PolicyVersion(number, None, str(folder)))
            store.serve(number, "test")
            assert with_style(PROBLEM, settings, store).prompt.style == wanted


@pytest.mark.parametrize("overrides", [(), ("proposer.name=random",), (*SERVER, "prompt.style=alignment")])
def test_a_problem_that_the_built_in_model_cannot_read_is_refused_with_the_fault(
    overrides: tuple[str, ...],
) -> None:
    with pytest.raises(ProblemError, match="has a scorer instead of examples"):
        choose_format(SCORED, config(*overrides))


def test_random_programs_know_one_format() -> None:
    with pytest.raises(ConfigError, match=r"prompt\.style is 'rewrite'"):
        choose_format(PROBLEM, config("proposer.name=random", "prompt.style=rewrite"))


def test_settings_and_templates_reach_the_format(tmp_path: Path) -> None:
    (tmp_path / "mutate.txt").write_text("{feedback}")
    made_by = choose_format(EVALUATED, config(*SERVER, f"prompt.templates={tmp_path}"))
    parent = dataclasses.replace(
        PARENT, evaluation=dataclasses.replace(PARENT.evaluation, feedback="x" * 1600)
    )
    text = made_by.messages(EVALUATED, PromptRequest(1, PromptKind.MUTATE, parent))[-1].content
    assert "100 characters left out" in text
    assert text.endswith("```")
