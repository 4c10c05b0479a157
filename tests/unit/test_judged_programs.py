"""The judged programs of a search, packed: each comes back as it was put in."""

from dataclasses import replace

from toy_runs import evaluation

from evovpo.prompts.request import ShownProgram
from evovpo.search.judged_programs import JudgedPrograms
from evovpo.types import Program, Trust


def test_a_judged_program_comes_back_as_it_was_put_in() -> None:
    programs = JudgedPrograms()
    odd = Program("def f():\n    return '\udc00\x00ä'\n")
    full = replace(
        evaluation(odd.source, (0.1, 1.0, 1 / 3)),
        **{"program_id": odd.id, "outputs": ("a", None, [1, {"b": 2.5}]), "trust": Trust.LOW},
        **{"metrics": (("score", 0.25), ("nan", "nan")), "feedback": "\ue000"},
    )
    plain = evaluation("pass", (0.0,))
    for program, found in ((odd, full), (Program("pass"), plain)):
        programs.add(ShownProgram(program, found))
    assert (programs[odd.id].program, programs[odd.id].evaluation) == (odd, full)
    assert list(programs) == [odd.id, plain.program_id]
    assert len(programs) == 2
    assert "other" not in programs
    assert programs.get("other") is None
