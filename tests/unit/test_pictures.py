"""Pictures: what is drawn is what was given, files are whole or not there."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from evovpo.analysis.statistics import Interval
from evovpo.errors import EvovpoError
from evovpo.reports.pictures import (
    COLOURS,
    KCurve,
    StepCurve,
    write_arms,
    write_budgets,
    write_training,
)

KS = (1, 3, 12)


def curve(label: str, *means: float, half_width: float = 0.05) -> KCurve:
    return KCurve(label, KS, tuple(Interval(m, m - half_width, m + half_width, 9) for m in means))


def has_colour(path: Path, colour: str) -> bool:
    """True if some pixel has this colour, as far as the palette of the picture has it."""
    wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    pixels = np.rint(imread(path)[..., :3] * 255).astype(int)
    return bool((abs(pixels - wanted) <= 8).all(axis=2).any())


def before_after(path: Path, title: str = "Before and after") -> None:
    curves = [curve("start", 0.2, 0.4, 0.5), curve("new", 0.3, 0.4, 0.4)]
    write_budgets(path, {"best@k": curves, "pass@k": curves}, title=title, note="9 problems")


def arms(path: Path, differences: list[KCurve]) -> None:
    write_arms(path, differences, reference="grpo", title="Arms", note="3 seeds")


def test_before_and_after_is_one_readable_picture(tmp_path: Path) -> None:
    before_after(tmp_path / "a.png")
    height, width, _ = imread(tmp_path / "a.png").shape
    assert width > 1200
    assert height > 500
    assert has_colour(tmp_path / "a.png", "#0072B2")
    assert [file.name for file in tmp_path.iterdir()] == ["a.png"]


def test_the_same_figures_give_the_same_bytes(tmp_path: Path) -> None:
    before_after(tmp_path / "a.png")
    before_after(tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


@pytest.mark.slow
def test_every_arm_has_a_panel_in_its_own_colour(tmp_path: Path) -> None:
    found = [curve(f"arm {n}", 0.1 * n, 0.2, -0.3) for n in range(4)]
    arms(tmp_path / "arms.png", found)
    assert all(has_colour(tmp_path / "arms.png", colour) for colour in COLOURS[:4])
    assert not has_colour(tmp_path / "arms.png", COLOURS[4])


def test_only_differences_that_exclude_zero_are_filled(tmp_path: Path) -> None:
    def coloured(half_width: float) -> int:
        path = tmp_path / f"{half_width}.png"
        arms(path, [curve("arm", 0.2, 0.2, 0.2, half_width=half_width), curve("wide", 0, 0, 0, half_width=1)])
        pixels = np.rint(imread(path)[..., :3] * 255).astype(int)
        return int((pixels == [0x00, 0x72, 0xB2]).all(axis=2).sum())

    assert coloured(0.19) > coloured(0.21) + 100


def test_training_curves_have_the_colour_of_their_arm_and_may_be_empty(tmp_path: Path) -> None:
    vpo, grpo = StepCurve("vpo", [1, 2, 3], [0.1, 0.2, 0.3]), StepCurve("grpo", [1, 2], [0.1, 0.1])
    panels = {"set score": [vpo, grpo, StepCurve("none", [], [])], "KL": [vpo]}
    write_training(tmp_path / "t.png", panels, title="Training", note="")
    assert [has_colour(tmp_path / "t.png", colour) for colour in COLOURS[:3]] == [True, True, False]


def test_panels_share_an_axis_that_reaches_the_highest_of_all(tmp_path: Path) -> None:
    low, high = curve("low", 0.0, 0.0, 0.0, half_width=0.0), curve("high", 0.5, 0.5, 0.5)
    for name, panels in (("up", {"a": [low], "b": [high]}), ("down", {"b": [high], "a": [low]})):
        write_budgets(tmp_path / f"{name}.png", panels, title="Solved", note="")
        assert has_colour(tmp_path / f"{name}.png", COLOURS[1]), name


def test_text_of_problems_is_not_read_as_a_formula(tmp_path: Path) -> None:
    before_after(tmp_path / "a.png", title="price-in-$\\frac{$")
    assert (tmp_path / "a.png").exists()


def test_nothing_to_draw_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EvovpoError, match="no arm to draw"):
        arms(tmp_path / "a.png", [])
    with pytest.raises(EvovpoError, match="no training step to draw"):
        write_training(tmp_path / "a.png", {"loss": [StepCurve("vpo", [], [])]}, title="", note="")


def test_a_picture_that_fails_leaves_the_old_one_and_no_rest(tmp_path: Path) -> None:
    target = tmp_path / "a.png"
    target.mkdir()
    with pytest.raises(EvovpoError, match=r"a\.png: the picture cannot be written \("):
        before_after(target)
    assert list(tmp_path.iterdir()) == [target]
