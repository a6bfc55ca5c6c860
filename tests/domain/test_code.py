"""Manifests of code: what is read back, and hostile ones."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runrig.domain.code import (
    LARGEST,
    LARGEST_MANIFEST,
    MOST_FILES,
    CodeFile,
    CodeLink,
    Manifest,
    link_problem,
    path_problem,
    read_manifest,
    sha256,
)
from runrig.domain.errors import InvalidInput
from tests.worlds.code import manifest

HASH = sha256(b"x")


def _refusal(raw: bytes | dict[str, Any]) -> str:
    with pytest.raises(InvalidInput) as refused:
        read_manifest(raw if isinstance(raw, bytes) else json.dumps(raw).encode())
    assert "\n" not in refused.value.message
    return refused.value.message


def _files(*paths: str, links: list[list[str]] | None = None) -> dict[str, Any]:
    return {"files": [[path, False, HASH, 1] for path in paths], "links": links or []}


NAMES = st.text("ab.é- ", min_size=1, max_size=4).filter(lambda name: name not in (".", ".."))
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


@given(st.dictionaries(PATHS, st.binary(max_size=3), min_size=1, max_size=6), st.data())
def test_a_manifest_is_read_back_as_written_unless_a_file_is_also_a_folder(
    files: dict[str, bytes], data: st.DataObject
) -> None:
    scripts = data.draw(st.sets(st.sampled_from(sorted(files))))
    written = manifest(files, scripts=scripts)
    both = any(other.startswith(f"{path}/") for path in files for other in files)
    if both:
        assert "is both a file and a folder" in _refusal(written.written())
    else:
        assert read_manifest(written.written()) == written
        assert read_manifest(json.dumps(json.loads(written.written()), indent=1).encode()).id == written.id


@given(st.dictionaries(PATHS, st.binary(max_size=3), min_size=2, max_size=4))
def test_the_id_depends_on_every_path_mode_and_content(files: dict[str, bytes]) -> None:
    first = min(files)
    changed = [
        manifest({**files, first: files[first] + b"!"}),
        manifest(files, scripts={first}),
        manifest({path: data for path, data in files.items() if path != first}),
        manifest({**{path: data for path, data in files.items() if path != first}, first + "x": files[first]}),
    ]
    assert manifest(files).id not in {each.id for each in changed} or len({*files, first + "x"}) == len(files)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/etc/passwd", "is not a relative path with slashes"),
        ("../up", "has an empty part, '.' or '..'"),
        ("a/../../up", "has an empty part, '.' or '..'"),
        ("a/..", "has an empty part, '.' or '..'"),
        ("./a", "has an empty part, '.' or '..'"),
        ("a//b", "has an empty part, '.' or '..'"),
        ("a/", "has an empty part, '.' or '..'"),
        ("", "has an empty part, '.' or '..'"),
        ("a\0b", "contains a control character"),
        ("a\nb", "contains a control character"),
        ("a\x1b[31m", "contains a control character"),
        ("a\x9b31m", "contains a control character"),
        ("C:/x", "is not a relative path with slashes"),
        ("c:x", "is not a relative path with slashes"),
        ("a\\..\\b", "is not a relative path with slashes"),
        ("a/" + "n" * 256, "is too long: at most 255 bytes per name and 1024 in all"),
        ("/".join(["é" * 100] * 6), "is too long: at most 255 bytes per name and 1024 in all"),
        ("\udcff", "is not valid UTF-8"),
    ],
)
def test_a_hostile_path_is_refused_in_one_line(path: str, said: str) -> None:
    assert path_problem(path) == said
    assert _refusal(_files(path)).endswith(said)
    assert _refusal(_files("z", links=[[path, "z"]])).endswith(said)


def test_ordinary_paths_are_accepted() -> None:
    for path in ("a", "a/b.py", ".env", "..a", "a..b/c", "with space", "Ünïcode/ファイル", "A", "n" * 255):
        assert path_problem(path) is None
    assert len(read_manifest(json.dumps(_files("README", "Readme", "readme")).encode()).files) == 3


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "invalid manifest: must be {files: "),
        (b"[" * 100_000, "invalid manifest: must be {files: "),
        (b"null", "invalid manifest: must be {files: "),
        (b'{"files": 1, "links": []}', "invalid manifest: must be {files: "),
        (b'{"files": [["a", 1, "x", 2]], "links": []}', "invalid manifest: must be {files: "),
        (b'{"files": [["a"]], "links": []}', "invalid manifest: must be {files: "),
        (b'{"files": []}', "invalid manifest: must be {files: "),
        (b" " * (LARGEST_MANIFEST + 1), "the manifest is larger than 8 MiB"),
        (_files(), "the code has no files"),
        (_files("b", "a"), "'a' is in the wrong place: paths must be sorted"),
        (_files("a", "a"), "'a' is listed twice"),
        (_files("a", links=[["a", "b"]]), "'a' is listed twice"),
        (_files("a", "a/b"), "'a' is both a file and a folder"),
        (_files("a/b", links=[["a", "c"]]), "'a' is both a file and a folder"),
        (_files("a", links=[["b", "a"], ["b/c", "a"]]), "'b' is both a file and a folder"),
        ({"files": [["a", False, "F" * 64, 1]], "links": []}, "'a' has an invalid SHA-256 or size"),
        ({"files": [["a", False, HASH, -1]], "links": []}, "'a' has an invalid SHA-256 or size"),
        ({"files": [["a", False, HASH, 1], ["b", False, HASH, 2]], "links": []}, "'b' has an invalid SHA-256 or size"),
        (
            {"files": [["a", False, HASH, LARGEST + 1]], "links": []},
            "the code is too large (268,435,457 bytes, maximum 268,435,456)",
        ),
        (_files(*(f"{n:05}" for n in range(MOST_FILES + 1))), "too many files in the code (20,001, maximum 20,000)"),
    ],
)
def test_an_invalid_manifest_is_refused_in_one_line(raw: bytes | dict[str, Any], said: str) -> None:
    assert _refusal(raw).startswith(said)


@given(
    st.dictionaries(
        PATHS, st.lists(st.sampled_from(["..", "a", "b", "a.b", "."]), max_size=4).map("/".join), max_size=5
    )
)
def test_no_accepted_links_lead_out_of_a_real_folder_however_they_are_chained(
    tmp_path_factory: Any, links: dict[str, str]
) -> None:
    try:
        code = read_manifest(manifest({"file": b""}, links).written())
    except InvalidInput:
        return
    root = Path(os.path.realpath(tmp_path_factory.mktemp("code")))
    for link in code.links:
        (root / link.path).parent.mkdir(parents=True, exist_ok=True)
        (root / link.path).symlink_to(link.target)
    for link in code.links:
        try:
            reached = (root / link.path).resolve(strict=False)
        except (OSError, RuntimeError):  # a circle
            continue
        assert reached.is_relative_to(root)


def test_links_may_go_up_within_the_code_but_not_out_of_it() -> None:
    for path, target in (("a", "b"), ("d/a", "../b"), ("d/e/a", "../../b/c"), ("d/a", "..")):
        assert link_problem(path, target) is None
    out = "is a link that leads out of the folder"
    for path, target in (("a", ".."), ("a", "../b"), ("d/a", "../../b"), ("a", "/etc"), ("d/a", "../..")):
        assert link_problem(path, target) == out
    # Through another link this would lead out of the code, although the path looks as if it stayed inside.
    assert link_problem("d/a", "x/../..") == "is a link whose target has an empty part, '.' or '..'"
    code = Manifest((CodeFile("f", False, HASH, 1),), (CodeLink("l", "f"),))
    assert read_manifest(code.written()) == code
