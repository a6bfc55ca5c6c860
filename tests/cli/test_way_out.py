"""Wrong command lines: each message names the command that was meant, and that command exists."""

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from runrig.cli.main import cli
from runrig.cli.way_out import message
from tests.worlds.command_line import runrig


def last_line(typed: str) -> str:
    done = runrig(*shlex.split(typed))
    assert (done.code, done.out) == (2, "")
    return done.err.splitlines()[-1]


def parses(line: str) -> bool:
    """Whether the program takes the command *line*, without running it."""
    words = shlex.split(line)[1:]
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group) and words:
        found = command.get_command(context, words[0])
        assert found is not None, line
        command, words = found, words[1:]
        context = click.Context(command, parent=context, info_name=command.name)
    try:
        command.make_context("x", list(words))
    except click.MissingParameter:  # The user did not write it either.
        return True
    return not isinstance(command, click.Group)


MEANT = [
    # A word that resembles a command, or is one in another group.
    ("lgos", "logs"),
    ("pool upd", "pool update"),
    ("pool lsit", "pool list"),
    ("hold a-1", "workflow hold a-1"),
    ("drain n1", "node drain n1"),
    ("subpool list team", "pool subpool list team"),
    # Words in another order, in the plural, or for another group.
    ("create pool x --quota 3", "pool create x --quota 3"),
    ("delete pool x", "pool delete x"),
    ("show pool x", "pool show x"),
    ("pool x show", "pool show x"),
    ("train-1 logs", "logs train-1"),
    ("get pools", "pool list"),
    ("get nodes", "resource list"),
    ("pools", "pool list"),
    ("pools list", "pool list"),
    ("nodes", "resource list"),
    ("node list", "resource list"),
    ("describe node n1", "resource info n1"),
    # A name where a command is expected.
    ("pool vision", "pool show vision"),
    ("node n1", "resource info n1"),
    ("train-1", "workflow query train-1"),
    ("workflow train-1", "workflow query train-1"),
    # Words of other programs.
    ("ps", "list"),
    ("kill a-1", "cancel a-1"),
    ("workflow kill a-1", "workflow cancel a-1"),
    ("describe train-1", "workflow query train-1"),
    ("sbatch x.yaml", "submit x.yaml"),
    ("pool rm x", "pool delete x"),
]


@pytest.mark.parametrize(("typed", "line"), MEANT)
def test_an_unknown_command_is_refused_with_a_suggestion(typed: str, line: str) -> None:
    said = last_line(typed)
    assert (said.split("'")[0], said.partition(" Did you mean ")[2]) == ("Error: No such command ", f"`runrig {line}`?")
    assert parses(f"runrig {line}")


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("status train-1", "workflow query train-1"),
        ("list train-1", "workflow query train-1"),
        ("events train-1", "workflow events train-1"),
        ("events sweep-4/7", "workflow events sweep-4/7"),
        ("list running", "list --status running"),
        ("list pools", "pool list"),
        ("list nodes", "resource list"),
        ("pool list vision", "pool show vision"),
        ("limits show bob", "limits show --user bob"),
    ],
)
def test_an_argument_that_a_command_does_not_take_is_refused_with_one_that_does(typed: str, line: str) -> None:
    taking, _, word = typed.rpartition(" ")
    assert last_line(typed) == (
        f"Error: `runrig {taking}` does not take an argument such as {word!r}. Did you mean `runrig {line}`?"
    )
    assert parses(f"runrig {line}")


@pytest.mark.parametrize(
    ("typed", "option", "line"),
    [
        ("--pool vision list", "--pool", "list --pool vision"),
        ("--pool=vision workflow list --all", "--pool", "workflow list --pool=vision --all"),
        ("pool --quota 3 create x", "--quota", "pool create --quota 3 x"),
    ],
)
def test_an_option_before_its_command_is_refused_with_its_right_position(typed: str, option: str, line: str) -> None:
    assert last_line(typed) == f"Error: {option} belongs after the command: `runrig {line}`."
    assert parses(f"runrig {line}")


def mistakes() -> Iterator[tuple[str, ...]]:
    """Every command with an argument too many, and without its group; every group with a word that is not a command."""
    for path, found in walked(cli):
        takes = [each for each in found.params if isinstance(each, click.Argument)]
        yield from ((*path, word) for word in ("bob", "nodes", "show", "kill", "HIGH", "train-1") if not takes)
        yield from ((*path, word, "x") for word in ("get", "ad", "rm", "bob") if isinstance(found, click.Group))
        yield from ((*path, "bob", "-t", "json"), (path[-1], *path[:-1], "x"), (path[-1], "bob"))


def walked(group: click.Group, at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name in group.list_commands(click.Context(group)):
        found = group.get_command(click.Context(group), name)
        assert found is not None
        yield (*at, name), found
        if isinstance(found, click.Group):
            yield from walked(found, (*at, name))


def test_every_suggested_command_exists_and_takes_its_arguments() -> None:
    found = set[str]()
    for typed in mistakes():
        context: click.Context | None = None
        command: click.Command = cli
        name, words = None, list(typed)
        try:
            while isinstance(command, click.Group):
                context = click.Context(command, parent=context, info_name=command.name)
                name, inner, words = command.resolve_command(context, words)
                assert inner is not None
                command = inner
            command.make_context(name, words, parent=context)
        except click.UsageError as error:
            found |= set(re.findall("`(runrig [^`]*)`", message(error, typed).partition(" Did you mean ")[2]))
    assert len(found) > 100
    groups = {path for path, each in walked(cli) if isinstance(each, click.Group)}
    assert [line for line in found if tuple(shlex.split(line)[1:]) not in groups and not parses(line)] == []


_ONE = "plan shows exactly one change. Use one of -f CLUSTER_FILE, --pool NAME --quota N, --drain NODE, --down DOMAIN, -s WORKFLOW_FILE"
_TIME = "is not a time. Use 2026-01-31, 2026-01-31T13:00, 2h (ago), today or yesterday."
_QUOTA = "is not a quota. Use a whole number of GPUs, or FLAVOR=GPUS,FLAVOR=GPUS."
_LIMIT = "is not a limit. Use a whole number of GPUs, none, or FLAVOR=N,..."


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        # A word that is unknown, or could mean several commands.
        ("zzz", "No such command 'zzz'."),
        ("token laptop", "No such command 'laptop'. Commands of `runrig token`: create, delete, list, update."),
        ("history", "No such command 'history'. Did you mean `runrig pool history` or `runrig user history`?"),
        ("pool 'a b'", "No such command 'a b'. Did you mean `runrig pool show 'a b'`?"),
        # More arguments than the command takes.
        ("logs a-1 b-1", "`runrig logs` takes one ID, so 'b-1' is one too many. Run it once for each."),
        ("pool show a b c", "`runrig pool show` takes one NAME, so 'b' is one too many. Run it once for each."),
        ("role grant anna admin b", "`runrig role grant` takes USER ROLE, so 'b' is one too many."),
        (
            "limits set bob --gpus 8",
            "`runrig limits set` does not take an argument such as 'bob'. "
            "Did you mean `runrig limits set --user bob --gpus 8` or `runrig limits set --pool bob --gpus 8`?",
        ),
        ("check bob", "No such command 'check'. Did you mean `runrig admin usage check`?"),
        ("version 1", "`runrig version` does not take an argument such as '1'."),
        ("version ''", "`runrig version` does not take an argument such as ''."),
        # A key that is set twice. Of an option, the last one counts, so that wrappers can have defaults.
        ("run -e A=1 -e A=2 -- x", "-e sets A twice: 1 and 2. Keep one of them."),
        ("workflow validate - --label k=a --label k=b", "--label sets k twice: a and b. Keep one of them."),
        ("workflow validate - --set k=1 --set-string k=2", "--set sets k twice: 1 and 2. Keep one of them."),
        (
            "pool update p --default-exit-action COMPLETE=1 --default-exit-action COMPLETE=2",
            "--default-exit-action sets COMPLETE twice: 1 and 2. Keep one of them.",
        ),
        (
            "pool update p --default-exit-action 'FAIL=1 FAIL=2'",
            "Invalid value for '--default-exit-action': FAIL is set twice: 1 and 2",
        ),
        ("pool update p --cohort a --no-cohort", "--cohort and --no-cohort exclude each other. Use one of them."),
        # Options that do not go together, or a value that cannot be read.
        ("plan", _ONE),
        ("plan --drain n0 --down r1", _ONE),
        ("plan --quota 8", "--quota requires a pool. Add --pool NAME."),
        ("plan --pool team", _ONE),
        ("plan --pool team --drain n0", "--pool requires --quota N or -s WORKFLOW_FILE"),
        ("plan --drain n0 --prune", "--prune requires -f CLUSTER_FILE"),
        ("plan --down r1 --force", "--force requires --drain NODE"),
        (
            "plan --drain n0 --priority LOW",
            "--priority, --set, --set-string, --set-env, --label, --retry, --after, --array, --sweep and --most require -s WORKFLOW_FILE",
        ),
        ("plan -f /nonexistent.yaml", "/nonexistent.yaml: no such file"),
        ("pool create p --quota -1", f"Invalid value for '--quota': '-1' {_QUOTA}"),
        ("pool create p --quota 1.5", f"Invalid value for '--quota': '1.5' {_QUOTA}"),
        ("pool create p --borrowing-limit -1", f"Invalid value for '--borrowing-limit': '-1' {_LIMIT}"),
        ("pool create p --topology-key rack", "Invalid value for '--topology-key': 'rack' is not KEY=LABEL"),
        ("pool update p", "nothing to change. Specify a setting of the pool, such as --quota 8"),
        ("cohort update c", "nothing to change. Specify a setting of the cohort, such as --quota 8"),
        ("cohort update c --parent p --no-parent", "--parent and --no-parent exclude each other. Use one of them."),
        ("cohort create c --lending-limit few", f"Invalid value for '--lending-limit': 'few' {_LIMIT}"),
        ("list --submitted-after tomorrow", f"Invalid value for '--submitted-after': 'tomorrow' {_TIME}"),
        ("pool show team --at tomorrow", f"Invalid value for '--at': 'tomorrow' {_TIME}"),
        ("logs w --attempt 0", "--attempt 0 is not an attempt. Use a number from 1, or all."),
        ("logs w --attempt last", "--attempt last is not an attempt. Use a number from 1, or all."),
        ("logs w --grep '('", "--grep ( is not a regular expression: missing ), unterminated subpattern at position 0"),
        ("logs w -C 3", "-C requires --grep RE"),
        ("logs w --stream both", "Invalid value for '--stream': 'both' is not one of 'out', 'err'."),
        ("logs w --since soon", f"Invalid value for '--since': 'soon' {_TIME}"),
    ],
)
def test_a_wrong_command_line_is_refused_with_what_is_wrong(typed: str, says: str) -> None:
    assert last_line(typed) == f"Error: {says}"


def test_an_option_may_be_set_twice_with_one_value_or_if_it_is_repeatable() -> None:
    assert parses("runrig list -c 3 --count 3 --label k=a --label k=b")


def test_the_way_out_is_in_json_too() -> None:
    done = runrig("node", "list", "-t", "json")
    assert (done.code, done.json["message"]) == (
        2,
        "No such command 'list'. Did you mean `runrig resource list -t json`?",
    )
