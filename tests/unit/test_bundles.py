"""Folders of files as one text: any text comes back, and no path leads out."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evovpo.errors import BundleError
from evovpo.prompts.bundles import check_path, is_bundle, pack, unpack

TRICKY = st.sampled_from(
    ["=== FILE: a ===", "\\=== FILE: a ===", "\\\\=== FILE", "=== FILE (no newline at end): b ===", "\\"]
)
TEXTS = st.lists(TRICKY | st.sampled_from("\n\r") | st.text(max_size=6), max_size=6).map("".join)
NAMES = st.text(st.sampled_from("ab=( )é"), min_size=1, max_size=5).filter(lambda name: name == name.strip())
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


def has_conflict(paths: set[str]) -> bool:
    return any(path.startswith(other + "/") for path in paths for other in paths)


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(PATHS, TEXTS, min_size=1, max_size=4).filter(lambda files: not has_conflict(set(files)))
)
def test_any_files_come_back(files: dict[str, str]) -> None:
    packed = pack(files)
    assert is_bundle(packed)
    assert unpack(packed) == files
    assert pack(dict(reversed(files.items()))) == packed


def test_a_bundle_by_hand() -> None:
    packed = (
        "=== FILE (no newline at end): a/b.txt ===\nlast\n"
        "=== FILE: c ===\n"
        "=== FILE: main.py ===\n\\=== FILE: x ===\nprint()\n"
    )
    assert pack({"main.py": "=== FILE: x ===\nprint()\n", "c": "", "a/b.txt": "last"}) == packed


@pytest.mark.parametrize(
    "path",
    ["", "/etc/passwd", "..", "a/../b", "./a", "a//b", "a/", "a\\b", "a\nb", "a\x00", " a", "a ", "\ud800",
     "a" * 256],
)  # fmt: skip
def test_unsafe_paths_are_refused(path: str) -> None:
    with pytest.raises(BundleError, match="relative path"):
        check_path(path)
    with pytest.raises(BundleError):
        pack({path: "x"})
    assert not is_bundle(f"=== FILE: {path} ===\nx\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty text"),
        ("import x\n", "found 'import x"),
        ("\n=== FILE: a ===\n", "as its first line"),
        ("=== FILE: a ===\n1\n=== FILE: a ===\n2\n", "'a' comes twice"),
        ("=== FILE: a ===\n1\n=== FILE: a/b ===\n2\n", "both a file and a folder"),
    ],
)
def test_what_is_no_bundle_is_refused_with_the_reason(text: str, message: str) -> None:
    assert not is_bundle(text)
    with pytest.raises(BundleError, match=message):
        unpack(text)


def test_files_that_no_bundle_can_hold_are_refused() -> None:
    with pytest.raises(BundleError, match="at least one"):
        pack({})
    with pytest.raises(BundleError, match="both a file and a folder"):
        pack({"a": "", "a/b": ""})
