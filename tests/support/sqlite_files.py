"""SQLite files of stores, changed behind the back of the store."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any


def sql(file: str | Path, *statements: str, values: tuple[object, ...] = ()) -> list[Any]:
    """Run statements in one transaction, each with the same values; return the rows of the last."""
    rows: list[Any] = []
    with closing(sqlite3.connect(file)) as connection, connection:
        for statement in statements:
            rows = connection.execute(statement, values).fetchall()
    return rows


def change_settings(file: Path, **sections: Any) -> None:
    """Change the stored settings of the one run; a dictionary changes some keys of its section."""
    ((config,),) = sql(file, "SELECT config FROM runs")
    settings = json.loads(config)
    for section, values in sections.items():
        settings[section] = settings[section] | values if isinstance(values, dict) else values
    sql(file, "UPDATE runs SET config = ?", values=(json.dumps(settings),))
