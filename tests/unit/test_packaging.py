"""What an installation that is no clone would lack: every package and every file of data is listed."""

import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]


def package_of(path: Path) -> str:
    """Return the nearest package above a file, by its full name."""
    folder = path.parent
    while not (folder / "__init__.py").exists():
        folder = folder.parent
    return ".".join(folder.relative_to(ROOT).parts)


def test_every_package_is_listed() -> None:
    there = {
        package_of(path) for name in ("evovpo", "trainer") for path in (ROOT / name).rglob("__init__.py")
    }
    assert set(SETUPTOOLS["packages"]) == there | {"evovpo._problems"}


def test_every_file_that_is_no_module_of_a_package_is_listed_as_its_data() -> None:
    for name in ("evovpo", "trainer"):
        for path in (ROOT / name).rglob("*.*"):
            is_module = path.suffix == ".py" and (path.parent / "__init__.py").exists()
            if path.is_dir() or is_module or "__pycache__" in path.parts:
                continue
            package = package_of(path)
            inner = path.relative_to(ROOT.joinpath(*package.split("."))).as_posix()
            # A pattern may also stand with a package further up, with the way down in it.
            top = path.relative_to(ROOT / name).as_posix()
            listed = SETUPTOOLS["package-data"]
            fits = [fnmatch(inner, pattern) for pattern in listed.get(package, [])]
            fits += [fnmatch(top, pattern) for pattern in listed[name]]
            assert any(fits), f"{path.relative_to(ROOT)} is in no list of package-data in pyproject.toml"
