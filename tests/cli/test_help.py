"""What a newcomer sees first, and how fast it is there."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from runrig.cli.lazy import LazyGroup
from runrig.cli.main import cli
from tests.worlds.command_line import runrig


def commands(command: click.Command, *names: str) -> Iterator[tuple[str, ...]]:
    """Every command line up to its arguments."""
    yield names
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from commands(child, *names, name)


EVERY = [" ".join(names) for names in commands(cli)]
RELEASE = """
    run | doctor | code | shell | attach | submit | list | status | logs | top | watch | wait | exec | cancel | restart
    | array
    | up | serve | mcp | backup | restore | version | apply | verify | events | usage | usage report | export | completion
    | pool list | pool show | pool create | pool update | pool delete
    | pool close | pool open | pool pause | pool resume | pool default
    | admin accept-clock | pool history
    | pool subpool list | pool subpool create | pool subpool update | pool subpool delete | cohort list | cohort show
    | cohort create | cohort update | cohort delete | resource list | resource info | topology show
    | node cordon | node drain | node uncordon
    | workflow submit | workflow validate | workflow render
    | workflow list | workflow query | workflow logs | workflow events | workflow spec | workflow cancel | workflow restart
    | workflow hold | workflow release | workflow move | workflow reprioritise
    | login | logout | notify | open | limits set | limits show | limits list
    | token list | token create | token update | token delete | user list | user show | user create | user disable
    | user enable | user history | role list | role grant | role revoke
    | workflow exec | workflow port-forward | workflow rsync upload | workflow rsync download
    | workflow rsync status | workflow rsync stop
    | credential list | credential set | credential delete | admin credential-key | admin reseal-credentials
    | admin usage check | admin usage rebuild
    | workflow wait | workflow watch | workflow why | why | simulate | plan | example list | example show | example run"""


def test_commands_equal_the_documented_list() -> None:
    groups = [
        "",
        "pool",
        "pool subpool",
        "cohort",
        "resource",
        "node",
        "topology",
        "workflow",
        "workflow rsync",
        "token",
        "credential",
        "user",
        "role",
        "admin",
        "admin usage",
        "example",
        "limits",
    ]
    assert sorted(EVERY) == sorted(groups + [name.strip() for name in RELEASE.split("|")])


def test_the_docs_name_the_page_of_every_command_or_say_that_it_has_none() -> None:
    from runrig.web.install import ROUTES

    paths = [str(getattr(route, "path", "")) for route in ROUTES]
    section = (Path(__file__).parents[2] / "docs" / "page.md").read_text().partition("### Commands and pages")[2]
    named = set(re.findall(r"`([^`]+)`", section.partition("\n## ")[0]))
    addresses = {each for each in named if each.startswith("/")}
    there = {re.sub(r"\{\w+\}", "*", path) for path in paths}
    assert {re.sub(r"\b(ID|NAME|ROLE)\b", "*", each) for each in addresses} <= there
    leaves = {each for each in EVERY if each and not any(other.startswith(f"{each} ") for other in EVERY)}
    words = named - addresses
    assert {each for each in leaves if not {each, each.partition(" ")[0], each.rpartition(" ")[0]} & words} == set()
    assert {each for each in words if not any(leaf == each or leaf.startswith(f"{each} ") for leaf in leaves)} == set()


@pytest.mark.parametrize("command", EVERY)
def test_help_describes_the_command_and_has_an_example(command: str) -> None:
    done = runrig(*command.split(), "--help")
    usage, description = done.out.split("\n\n")[:2]
    assert (done.code, done.err) == (0, "")
    assert usage.startswith(f"Usage: runrig {command}".rstrip())
    assert description.strip()
    assert re.search(rf"Examples:\n +runrig (?:{command}|{command.removeprefix('workflow ')})\b", done.out)


@pytest.mark.parametrize("group", [(), ("workflow",)])
def test_help_line_of_a_lazy_command_is_shown_without_importing_it(group: tuple[str, ...]) -> None:
    found: click.Command = cli
    for name in group:
        assert isinstance(found, LazyGroup)
        child = found.get_command(click.Context(found), name)
        assert child is not None
        found = child
    assert isinstance(found, LazyGroup)
    listed = runrig(*group, "--help").out
    assert [name for name in found.lazy if name not in listed] == []


HEAVY = {"pydantic", "fastapi", "sqlalchemy", "uvicorn", "rich", "yaml", "jinja2", "http.client", "ssl", "asyncio"}
HEAVY |= {"runrig.domain.shown", "runrig.domain.cluster"}
HEAVY |= {"h11", "urllib3", "secrets", "runrig.wire", "runrig.engine", "runrig.service", "runrig.domain.workflows"}


def imported_by(*args: str) -> set[str]:
    program = (
        "import sys; from runrig.cli.main import run; code = run(sys.argv[1:]);"
        "print('\\n'.join(sys.modules), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", program, *args], capture_output=True, text=True, check=False)
    return set(done.stderr.split("\n"))


def test_help_imports_nothing_heavy() -> None:
    assert HEAVY & imported_by("--help") == set()
    assert HEAVY & imported_by("workflow", "--help") == set()


@pytest.mark.parametrize("command", ["list", "status", "why x-1", "logs x-1", "pool default"])
def test_command_that_only_calls_the_server_does_not_import_it(command: str) -> None:
    imported = imported_by("--server", "http://127.0.0.1:1", *command.split())
    assert HEAVY & imported == {"h11"}


@pytest.mark.parametrize(
    ("shell", "says"), [("bash", "complete -o"), ("zsh", "#compdef runrig"), ("fish", "complete --no-files")]
)
def test_completion_prints_the_script_for_the_shell(shell: str, says: str) -> None:
    done = runrig("completion", shell)
    assert done.code == 0
    assert says in done.out
    assert "_RUNRIG_COMPLETE" in done.out


@pytest.mark.parametrize("group", [(), ("pool",), ("pool", "subpool")])
def test_a_group_without_a_command_shows_its_help(group: tuple[str, ...]) -> None:
    alone, help = runrig(*group), runrig(*group, "--help")
    assert (alone.code, alone.out, alone.err) == (2, "", help.out)
