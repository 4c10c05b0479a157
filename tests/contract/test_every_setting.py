"""Every setting changes something that a test sees: named here for each, or checked here."""
# ruff: noqa: E501  # names of tests are long

import ast
import re
from pathlib import Path

import pytest
from openevolve_problems import BETTER, SHAPES, Answering, answering, write_project
from plain_search import PlainLoop
from prompt_cases import EVALUATED

from evovpo.config import BudgetConfig, Config, ModelConfig, ProposerConfig
from evovpo.config_tree import Tree
from evovpo.problem.openevolve.evaluator import OpenEvolveEvaluator
from evovpo.problem.openevolve.opening import open_project
from evovpo.proposers.limits import Budget, Gate, Spending
from evovpo.proposers.retrying_client import Client
from evovpo.runs.choices import choose_format
from evovpo.sandbox import WholeResult
from evovpo.types import Program, Status
from trainer.config import TrainConfig

TESTS = Path(__file__).parents[1]
HERE = "contract/test_every_setting.py"
DRIVER = "integration/test_driver.py"
OPENED = "integration/test_openevolve_opened.py"
PROJECTS = "integration/test_openevolve.py"
SEARCH = "unit/test_search.py"
FEATURES = "unit/test_search_features.py"
SERVERS = "contract/test_servers.py"
PROPOSERS = "contract/test_proposers.py"
RETRAIN = "integration/test_retrain.py"
DATA = "contract/test_data.py"

SEEN: dict[str, tuple[str, str]] = {
    "search.evaluations": (SEARCH, "test_the_budget_is_used_exactly"),
    "search.strategy": ("unit/test_strategies.py", "test_a_replayed_history_asks_the_same_and_a_budget_is_used_exactly"),
    "search.ways": (FEATURES, "test_the_settings_the_format_or_the_problem_give_the_shares_at_first"),
    "search.islands": (SEARCH, "test_islands_take_turns_and_keep_their_own_programs"),
    "search.elites": (HERE, "test_elites_bound_an_island"),
    "search.migration_interval": (FEATURES, "test_an_island_shows_its_own_programs"),
    "search.migration_rate": (SEARCH, "test_islands_take_turns_and_keep_their_own_programs"),
    "search.rollouts": (SEARCH, "test_open_tickets_count_against_the_budget_before_they_are_told"),
    "search.answers": (SEARCH, "test_open_tickets_count_against_the_budget_before_they_are_told"),
    "search.joins": (SEARCH, "test_the_budget_is_used_exactly"),
    "search.attempts": (FEATURES, "test_attempts_belong_to_a_parent_and_only_the_last_are_shown"),
    "search.patience": (FEATURES, "test_patience_counts_evaluations_since_the_best_got_better"),
    "search.target": (FEATURES, "test_a_target_is_a_mean_reward"),
    "search.in_flight": (DRIVER, "test_as_many_requests_are_open_as_configured"),
    "search.stop_when_solved": ("integration/test_parts.py", "test_a_solved_run_goes_on_only_if_it_is_told_not_to_stop"),
    "sampling.temperature": (DRIVER, "test_as_many_requests_are_open_as_configured"),
    "sampling.max_tokens": (DRIVER, "test_as_many_requests_are_open_as_configured"),
    "proposer.name": (PROPOSERS, "test_settings_that_name_no_proposer_are_refused"),
    "proposer.model": (PROPOSERS, "test_settings_that_name_no_proposer_are_refused"),
    "proposer.policy": (PROPOSERS, "test_a_run_samples_from_the_policy_that_it_names"),
    "proposer.base_url": (PROPOSERS, "test_settings_that_name_no_proposer_are_refused"),
    "proposer.endpoint": ("unit/test_prompts_templates.py", "test_the_format_fits_the_problem_and_the_proposer"),
    "proposer.timeout_seconds": (SERVERS, "test_every_fault_is_a_row_with_its_reason_and_changes_no_reply"),
    "proposer.attempts": (PROPOSERS, "test_a_server_outside_of_the_protocol_is_one_error"),
    "proposer.patience_seconds": (SERVERS, "test_a_server_that_fails_for_long_is_waited_for"),
    "proposer.concurrency": (SERVERS, "test_no_more_requests_are_under_way_than_allowed"),
    "proposer.tolerance": (HERE, "test_settings_of_the_proposer_reach_its_client"),
    "sandbox.minimum_level": (OPENED, "test_off_by_word_is_off_where_a_low_minimum_still_takes_the_strongest"),
    "sandbox.workers": ("contract/test_sandbox.py", "test_a_program_ends_with_its_fork_server"),
    "sandbox.executor": ("integration/test_cluster.py", "test_a_task_waits_for_a_machine_that_has_what_it_takes"),
    "sandbox.resources": ("integration/test_cluster.py", "test_what_a_task_takes_is_said_as_ray_wants_it"),
    "evaluator.mode": (PROJECTS, "test_in_proxy_mode_the_candidate_is_apart_and_its_judgement_trusted"),
    "evaluator.metrics": (PROJECTS, "test_declared_metrics_are_objectives_and_all_others_stay_raw"),
    "evaluator.initial_program": (
        "integration/test_openevolve_moving.py",
        "test_an_initial_program_of_ones_own_makes_a_problem_of_its_own_and_must_be_there",
    ),
    "evaluator.allow": (OPENED, "test_the_three_places_are_one_list_that_is_stored_and_told"),
    "evaluator.timeout_seconds": (HERE, "test_settings_of_the_evaluator_reach_the_problem"),
    "evaluator.memory_mb": (HERE, "test_settings_of_the_evaluator_reach_the_problem"),
    "evaluator.processes": (HERE, "test_settings_of_the_evaluator_reach_the_problem"),
    "evaluator.thresholds": (PROJECTS, "test_the_initial_program_is_judged_once_unless_a_threshold_stops_it"),
    "evaluator.arguments": (PROJECTS, "test_arguments_of_the_configuration_reach_evaluate_and_make_another_problem"),
    "evaluator.judges": ("integration/test_openevolve_feedback.py", "test_judges_make_a_problem_of_their_own"),
    "evaluator.artifacts": (HERE, "test_settings_of_the_evaluator_reach_the_problem"),
    "prompt.style": ("integration/test_parts.py", "test_replies_are_read_in_the_format_that_their_prompt_asked_for"),
    "prompt.templates": ("unit/test_prompts_templates.py", "test_settings_and_templates_reach_the_format"),
    "prompt.openevolve": (HERE, "test_templates_of_openevolve_make_the_prompts"),
    "prompt.enforce_blocks": (
        "unit/test_prompts_instruct.py", "test_where_all_of_a_program_may_change_markers_are_lines_like_others"
    ),
    "store.url": (PROJECTS, "test_a_run_is_resumed_reported_and_refused_where_its_project_changed"),
    "run.seed": ("integration/test_parts.py", "test_what_cannot_be_changed_is_refused_and_nothing_is_stored"),
    "run.origin": ("integration/test_parts.py", "test_a_run_begins_with_the_best_programs_of_another_and_replays"),
    "budget.tokens": (SERVERS, "test_a_run_stops_when_its_tokens_are_used_and_what_was_under_way_is_told"),
    "budget.money": ("unit/test_budgets.py", "test_a_budget_of_money_ends_with_the_money"),
    "models.name": (HERE, "test_settings_of_the_proposer_reach_its_client"),
    "models.base_url": (SERVERS, "test_models_are_tables_of_a_file"),
    "models.key_variable": (SERVERS, "test_a_key_is_read_from_the_environment_and_never_said"),
    "models.weight": (SERVERS, "test_tickets_go_to_the_models_by_weight_and_say_which"),
    "models.temperature": (SERVERS, "test_a_model_has_settings_and_fields_of_its_own"),
    "models.max_tokens": (SERVERS, "test_a_model_has_settings_and_fields_of_its_own"),
    "models.price": (SERVERS, "test_requests_are_priced"),
    "models.system": (SERVERS, "test_a_model_has_settings_and_fields_of_its_own"),
    "models.extra": (SERVERS, "test_a_model_has_settings_and_fields_of_its_own"),
}  # fmt: skip
"""Setting of `evovpo config` -> file and name of a test that sees it change something."""

SEEN_IN_TRAINING: dict[str, tuple[str, str]] = {
    "objective.name": (DATA, "test_spread_is_in_the_eye_of_the_objective"),
    "objective.draws": ("unit/test_objectives.py", "test_weightings_have_the_moments_of_their_distribution"),
    "objective.alpha": ("unit/test_objectives.py", "test_weightings_have_the_moments_of_their_distribution"),
    "objective.k": (DATA, "test_groups_too_small_for_the_budget_are_left_out_and_a_run_of_such_is_refused"),
    "objective.scalar": ("unit/test_objectives.py", "test_one_number_is_the_weighted_mean_where_weights_are_given"),
    "update.learning_rate": (RETRAIN, "test_a_learning_rate_that_diverges_stops_and_keeps_the_last_good_version"),
    "update.kl": ("contract/test_offline.py", "test_texts_are_held_to_the_reference_by_the_kl_of_whole_distributions"),
    "update.bf16": ("contract/test_offline.py", "test_bfloat16_is_near_float32"),
    "update.lora_rank": (RETRAIN, "test_an_adapter_is_trained_published_and_trained_on"),
    "update.groups_per_step": (DATA, "test_each_pass_takes_every_group_once_in_steps_of_nearly_equal_size"),
    "update.passes": (DATA, "test_each_pass_takes_every_group_once_in_steps_of_nearly_equal_size"),
    "data.staleness_limit": (RETRAIN, "test_groups_of_versions_too_far_away_are_left_out"),
    "imitate.share": (
        "integration/test_loop.py", "test_searches_of_a_loop_that_imitates_do_not_see_validation_rows"
    ),
    "imitate.passes": ("integration/test_imitate.py", "test_sources_and_lengths_are_balanced"),
    "probe.problems": ("integration/test_loop.py", "test_a_loop_over_a_family_says_whether_it_won"),
    "probe.answers": (RETRAIN, "test_a_version_that_is_clearly_worse_is_stored_and_not_served_unless_asked"),
    "probe.evaluations": (RETRAIN, "test_a_version_that_is_clearly_worse_is_stored_and_not_served_unless_asked"),
    "probe.serve_worse": (RETRAIN, "test_a_version_that_is_clearly_worse_is_stored_and_not_served_unless_asked"),
    "run.seed": (DATA, "test_weightings_are_drawn_anew_for_every_step_and_follow_from_seed_and_step"),
    "run.model": (RETRAIN, "test_a_run_sampled_from_a_server_needs_to_be_told_the_folder_of_its_model_once"),
}  # fmt: skip
"""The same of `evovpo retrain --show-config`."""


def names(tree: type[Tree]) -> set[str]:
    return {f"{name}.{key}" for name, (kind, _) in tree._sections().items() for key in kind.model_fields}


def mentions(file: str, test: str, setting: str) -> bool:
    """True if there is such a test, and the key of the setting is a word of it or of its decorators."""
    source = (TESTS / file).read_text(encoding="utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == test:
            parts = [*node.decorator_list, node]
            text = "\n".join(ast.get_source_segment(source, part) or "" for part in parts)
            return re.search(rf"\b{setting.rpartition('.')[2]}\b", text) is not None
    return False


@pytest.mark.parametrize(("tree", "seen"), [(Config, SEEN), (TrainConfig, SEEN_IN_TRAINING)])
def test_every_setting_is_seen_by_a_test(tree: type[Tree], seen: dict[str, tuple[str, str]]) -> None:
    assert names(tree) == seen.keys()
    assert not [name for name, place in seen.items() if not mentions(*place, name)]


def test_settings_are_few() -> None:
    ours = {name for name in names(Config) if not name.startswith("models.")}
    assert len(ours) <= 60
    assert len(ours) + len(names(TrainConfig)) <= 80


def test_settings_of_the_proposer_reach_its_client() -> None:
    settings = ProposerConfig(base_url="http://h/v1", model="m", tolerance=0.2)
    gate = Gate(settings, Budget(BudgetConfig(), lambda run_id: Spending()))
    client = Client(ModelConfig(name="m"), settings, gate, 0.1, print, set())
    assert (client.server.tolerance, client.server.model) == (0.2, "m")


def test_templates_of_openevolve_make_the_prompts() -> None:
    settings = {"openevolve": {"num_top_programs": 4}, "style": "rewrite"}
    config = Config().changed(prompt=settings, proposer={"name": "openai"})
    assert (
        choose_format(EVALUATED, config).others
        > choose_format(EVALUATED, config.changed(prompt={"openevolve": None})).others
    )


def test_elites_bound_an_island() -> None:
    loop = PlainLoop(elites=2, evaluations=20)
    for number in range(6):
        loop.step(f"0.{number} 0.{9 - number} # {number}")
    assert [len(island.members) for island in loop.search.population.islands] == [2]


@pytest.mark.parametrize("shown", [True, False])
def test_settings_of_the_evaluator_reach_the_problem(tmp_path: Path, shown: bool) -> None:
    folder = write_project(tmp_path / "p", SHAPES["plain"])
    limits = {"evaluator.processes": 7, "evaluator.timeout_seconds": 9.0, "evaluator.memory_mb": 512}
    changes = {**limits, "evaluator.artifacts": shown}
    problem = open_project(folder, None, changes, open_evaluator=answering(combined_score=0.2).open).problem
    found = problem.limits
    assert (found.processes, found.wall_seconds, found.memory_mb) == (7, 9.0, 512)
    answer = WholeResult(Status.OK, metrics=(("combined_score", 0.3),), artifacts=(("advice", "shorter"),))
    judged = OpenEvolveEvaluator(problem, Answering(lambda job: answer)).evaluate(Program(BETTER))  # type: ignore[arg-type]
    assert ("advice: shorter" in judged.feedback) is shown
