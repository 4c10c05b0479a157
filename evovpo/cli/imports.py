"""The command `evovpo import-tasks`: wiring only."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from evovpo.cli.terminal import AsJson, print_json, say
from evovpo.problem.importers.tasks import TaskFormat

app = typer.Typer()


@app.command("import-tasks", rich_help_panel="Problems")
def import_tasks(
    task_format: Annotated[TaskFormat, typer.Argument(metavar="FORMAT", help="What kind of file it is.")],
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Your copy of the file; of PSB2, the folder of its data.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="New folder for the suite.")],
    limit: Annotated[int | None, typer.Option(min=1, help="Take only so many tasks.")] = None,
    as_json: AsJson = False,
) -> None:
    """Turn tasks of HumanEval, MBPP, LiveCodeBench or PSB2 into a suite of problems.

    FORMAT is humaneval, mbpp, livecodebench or psb2. Nothing of the file is executed.

    [dim]Example:[/dim]  evovpo import-tasks humaneval HumanEval.jsonl.gz --out humaneval
    """
    from evovpo.problem.folder import load_problem
    from evovpo.problem.importers import formats

    written = formats.import_tasks(task_format, file, out, limit)
    for folder in written.folders:
        load_problem(folder)
    reasons = Counter(task.reason for task in written.skipped)
    if as_json:
        print_json(
            {
                "out": str(out),
                "problems": len(written.folders),
                "tests": written.tests,
                "heldout": written.heldout,
                "skipped": {task.name: task.reason for task in written.skipped},
                "tests_left_out": dict(written.left_out),
            }
        )
        return
    say(f"{out}: {len(written.folders)} problems, {written.tests} tests and {written.heldout} held-out ones")
    for reason, count in reasons.most_common():
        say(f"  {count} tasks skipped: {reason}")
    for reason, count in written.left_out.most_common():
        say(f"  {count} tests of the problems left out: {reason}")
    say(f"\nLook at one:  evovpo check {written.folders[0]}")
