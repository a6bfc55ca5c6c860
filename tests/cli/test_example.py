"""`runrig example`: what comes with the program, by short names."""

from pathlib import Path

import pytest

from tests.worlds.command_line import runrig

ROOT = Path(__file__).parents[2]


def test_every_example_is_listed_with_a_sentence_and_a_command_that_names_it() -> None:
    listed = runrig("example", "list", "-t", "json").json["examples"]
    files = {str(path.relative_to(ROOT / "examples").with_suffix("")) for path in (ROOT / "examples").glob("*/*.yaml")}
    assert {each["name"] for each in listed} == files
    assert [each["name"] for each in listed if not each["description"]] == []
    for each in listed:
        assert not each["command"] or f"examples/{each['name']}.yaml" in each["command"]


def test_the_list_fits_a_terminal() -> None:
    lines = runrig("example", "list", width=80).out.splitlines()
    assert lines[2].split()[:4] == ["workflows/01-hello", "One", "task", "and"]
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", ["hello", "01-hello", "workflows/01-hello", "examples/workflows/01-hello.yaml"])
def test_example_is_shown_verbatim(name: str) -> None:
    done = runrig("example", "show", name)
    assert (done.code, done.out, done.err) == (0, (ROOT / "examples/workflows/01-hello.yaml").read_text(), "")


def test_a_simulation_runs_with_more_options() -> None:
    file = ROOT / "examples/simulate/01-borrow-and-reclaim.yaml"
    done = runrig("example", "run", "borrow-and-reclaim", "-t", "json")
    assert (done.code, done.out) == (0, runrig("simulate", "--cycles", "0", str(file), "-t", "json").out)
    assert done.err == f"$ runrig simulate --cycles 0 {file} -t json\n"


def test_example_is_submitted_to_the_named_server() -> None:
    done = runrig("--server", "http://127.0.0.1:1", "example", "run", "lead")
    assert done.code == 10
    assert "http://127.0.0.1:1" in done.err


@pytest.mark.parametrize(
    ("action", "name", "says"),
    [
        ("show", "helo", "unknown example 'helo'. Did you mean 'hello'?"),
        ("run", "zzz", "unknown example 'zzz'. List them with `runrig example list`"),
        (
            "run",
            "topology/02-cluster",
            "topology/02-cluster is used by other examples and has no command. "
            "Print it: runrig example show topology/02-cluster",
        ),
        (
            "show",
            "cluster",
            "5 examples are named cluster: topology/01-cluster, topology/02-cluster, topology/03-cluster, "
            "topology/04-cluster and topology/05-cluster",
        ),
    ],
)
def test_unknown_example_is_one_line(action: str, name: str, says: str) -> None:
    done = runrig("example", action, name)
    assert (done.code, done.out, done.err) == (2, "", f"Error: {says}\n")
