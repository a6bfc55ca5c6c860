"""Files of this machine in a workflow file."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from runrig.client.localpath import inlined
from runrig.domain.errors import InvalidInput, Problem
from runrig.spec.template import is_template
from tests.cli.canned_server import SUBMITTED, answered, at, serving
from tests.worlds.command_line import written

SUBMIT = "POST /api/v1/workflows"
TEXT = """\
workflow:
  name: train  # kept
  tasks:
  - name: main
    files:
    - {path: /run.py, localpath: run.py}
    - path: /conf
      localpath: "sub/conf.ini"   # also kept
    command: [localpath, files]
"""
SCRIPT = "print(f'{{x}} {{output}}')\n\t\"quoted\" \\n é 👍\x1b\n"


def test_contents_replace_the_path_and_lines_keep_their_positions(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    written(tmp_path, SCRIPT, "run.py")
    written(tmp_path / "sub", "", "conf.ini")
    text = inlined(TEXT, tmp_path)
    files = [{"path": "/run.py", "contents": SCRIPT}, {"path": "/conf", "contents": ""}]
    task = {"name": "main", "files": files, "command": ["localpath", "files"]}
    assert yaml.safe_load(text) == {"workflow": {"name": "train", "tasks": [task]}}
    assert len(text.splitlines()) == len(TEXT.splitlines())
    assert text.count("kept") == 2
    assert not is_template(text)


def test_every_unsendable_file_is_reported_with_its_position(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_bytes(b"\xff")
    with pytest.raises(InvalidInput) as caught:
        inlined(TEXT, tmp_path)
    conf = f"localpath 'sub/conf.ini' cannot be read: No such file or directory ({tmp_path}/sub/conf.ini)"
    assert caught.value.problems == (
        Problem("localpath 'run.py' is not UTF-8 text. A workflow file can contain only text", "localpath", 6, 34),
        Problem(conf, "localpath", 8, 18),
    )


def test_file_larger_than_a_mebibyte_is_refused(tmp_path: Path) -> None:
    written(tmp_path, "x" * (1024 * 1024 + 1), "run.py")
    with pytest.raises(InvalidInput, match=r"localpath 'run.py' is larger than 1 MiB"):
        inlined("files: [{localpath: run.py}]", tmp_path)


@pytest.mark.parametrize(
    "text", ["localpath: [", "localpath", "files: localpath", "files: [{localpath: [a]}]", "a: &a [*a, localpath]"]
)
def test_other_text_is_left_to_the_server(text: str, tmp_path: Path) -> None:
    assert inlined(text, tmp_path) == text


def test_submit_includes_files_next_to_the_workflow_file(tmp_path: Path) -> None:
    written(tmp_path, "x = 1\n", "run.py")
    file = written(tmp_path, "workflow: {tasks: [{files: [{path: /a, localpath: run.py}], args: ['{{output}}']}]}\n")
    with serving({SUBMIT: SUBMITTED}) as server:
        assert at(server, "workflow", "submit", file, "-p", "p").code == 0
    sent = "workflow: {tasks: [{files: [{path: /a, contents: \"x = 1\\n\"}], args: ['{{output}}']}]}\n"
    assert [body["file"] for _, _, body in server.asked] == [sent]


def test_template_is_rendered_by_the_server_before_its_files_are_read(tmp_path: Path) -> None:
    written(tmp_path, "x = 1\n", "run.py")
    template = "workflow: {tasks: [{files: [{path: /a, localpath: '{{ file }}'}]}]}\n"
    rendered = template.replace("{{ file }}", "run.py")
    file = written(tmp_path, template)
    checked: dict[str, Any] = {"id": None, "file": rendered, "warnings": []}
    with serving({f"{SUBMIT}:check": checked, SUBMIT: SUBMITTED}) as server:
        assert at(server, "workflow", "submit", file, "-p", "p", "--set", "file=run.py").code == 0
    first, second = server.asked
    assert (first[0], first[2]["template_only"], first[2]["file"]) == (f"{SUBMIT}:check", True, template)
    assert second[2] == {
        "pool": "p",
        "file": 'workflow: {tasks: [{files: [{path: /a, contents: "x = 1\\n"}]}]}\n',
        "variables": ["file=run.py"],
        "string_variables": [],
        "template": template,
    }


def test_missing_local_file_is_reported_with_its_position_and_nothing_is_sent(tmp_path: Path) -> None:
    file = written(tmp_path, "workflow:\n  files:\n  - localpath: no.py\n")
    done = answered({}, "workflow", "submit", file, "-p", "p")
    assert done.code == 2
    assert done.err == f"{file}:3:16: localpath 'no.py' cannot be read: No such file or directory ({tmp_path}/no.py)\n"
