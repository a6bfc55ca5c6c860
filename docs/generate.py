"""Writes what the docs take from the code, and checks their links.

    python -m docs.generate            rewrite the generated sections
    python -m docs.generate --check    list what is outdated or broken, without changes; exit code 1 if anything is

A generated section stands between two comments, which name it and end it; everything outside is written by hand.
"""

import argparse
import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from docs import drawings, messages
from runrig.api.app import described
from runrig.backends.kubernetes.rights import RIGHTS
from runrig.cli.commands import example
from runrig.cli.main import cli
from runrig.client import clients
from runrig.client.calls import access as client_access
from runrig.client.calls import cluster, workflows
from runrig.client.calls import pools as client_pools
from runrig.client.ways import Calls, call, stream
from runrig.domain import access, pools, settings, transitions

ROOT = Path(__file__).parent.parent
SHARED_OPTIONS = ("help", "format_type", "as_json", "server", "data")
COMMON_ERRORS = ("400", "401", "403", "413", "422", "429", "500", "503")
OURS = "/api/v1/"
SAME_OPTIONS = 3
"""From so many options on that are explained elsewhere, one row names them and the place."""
CLUSTER_FILE = "the [cluster file](cluster-file.md#pools)"
WIDE = 80
"""Maximum length of arguments on one line, in characters."""

_SECTION = re.compile(r"<!-- generated: (?P<name>[a-z-]+) -->\n.*?<!-- end -->", re.DOTALL)
_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (?P<text>.+)$", re.MULTILINE)


# ---------------------------------------------------------------- the command line


def commands() -> Iterator[tuple[str, click.Command, click.Context]]:
    """(name as typed, command, its context) of every command except groups that only have commands, in the order of the help."""
    yield from _below(cli, click.Context(cli, info_name="runrig"))


def _below(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, f"{name} is listed but does not exist"
        inner = click.Context(command, info_name=name, parent=context)
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield inner.command_path, command, inner
        if isinstance(command, click.Group):
            yield from _below(command, inner)


def command_reference() -> Iterator[str]:
    names: dict[click.Command, list[str]] = {}
    for name, command, _ in commands():
        names.setdefault(command, []).append(name)
    first: dict[tuple[str, str], str] = {}  # option and its help → what explains it
    for name, command, context in commands():
        if name != names[command][0]:
            continue
        yield f"### {name}"
        arguments = [each for each in command.collect_usage_pieces(context) if each != "[OPTIONS]"]
        if arguments:
            yield f"```text\n{context.command_path} {' '.join(arguments)}\n```"
        yield inspect.cleandoc(command.help or "") + "".join(f"\n\nSame as `{each}`." for each in names[command][1:])
        options = list(_options(name, _records(command, context), first))
        if options:
            yield "\n".join(["| option | |", "|---|---|", *options])
        shown = [line.strip() for line in (command.epilog or "").splitlines() if line.startswith("  ")]
        if shown:
            yield "```sh\n" + "\n".join(shown) + "\n```"


def _records(command: click.Command, context: click.Context) -> list[tuple[str, str]]:
    """Names and help of each option that is not one of all commands."""
    shared = SHARED_OPTIONS if any(each.opts == ["-t", "--format-type"] for each in command.params) else ("help",)
    options = [each for each in command.params if isinstance(each, click.Option) and each.name not in shared]
    found = (each.get_help_record(context) for each in options)
    return [(_cell(record[0]), _cell(record[1])) for record in found if record is not None]


def _options(name: str, records: Sequence[tuple[str, str]], first: dict[tuple[str, str], str]) -> Iterator[str]:
    """A row per option; one for all that the same earlier command or the same page explains.

    *first* has what explains an option, and gets those of *name*.
    """
    again: dict[str, list[str]] = {}
    for record in records:
        there = CLUSTER_FILE if _is_setting(record[1]) else name
        if first.setdefault(record, there) != name:
            again.setdefault(first[record], []).append(record[0])
    for option, text in records:
        there = first[option, text]
        same = again.get(there, [])
        if len(same) < SAME_OPTIONS:
            yield f"| `{option}` | {text} |"
        elif option == same[0]:
            link = there if there == CLUSTER_FILE else f"[`{there}`](#{there.replace(' ', '-')})"
            yield f"| {', '.join(f'`{each}`' for each in same)} | as in {link} |"


def _is_setting(text: str) -> bool:
    """Whether this is the help of a setting of pools, which is in a table of its own."""
    what = text.removesuffix(".").removesuffix(" (repeatable)")
    return any(_cell(each.what).replace("`", "") == what for each in settings.SETTINGS)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# ---------------------------------------------------------------- HTTP


def routes() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(method, path, operation) of every route, in the order of the document."""
    document = described().openapi()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def our_routes() -> Iterator[str]:
    """The tables of `/api/v1`."""
    return _tables(each for each in routes() if each[1].startswith(OURS))


def other_routes() -> Iterator[str]:
    return _tables(each for each in routes() if not each[1].startswith(OURS))


def _tables(found: Iterable[tuple[str, str, dict[str, Any]]]) -> Iterator[str]:
    tables: dict[str, list[str]] = {}
    for method, path, operation in found:
        own = [code for code in sorted(operation["responses"]) if code > "299" and code not in COMMON_ERRORS]
        query = [f"`{each['name']}`" for each in operation.get("parameters", ()) if each["in"] == "query"]
        need = operation["x-permission"]
        row = f"| `{method} {path}` | {_cell(operation['summary'])} | {need} | {', '.join(query)} | {', '.join(own)} |"
        tables.setdefault(operation["tags"][0], []).append(row)
    for tag, rows in tables.items():
        yield f"### {tag}"
        yield "\n".join(["| route | | needs | query | errors |", "|---|---|---|---|---|", *rows])


# ---------------------------------------------------------------- the Python client

CLIENT: Mapping[str, type[Calls[Any]]] = {
    "client": clients.ServerCalls,
    "client.workflows": workflows.WorkflowCalls,
    "client.pools": client_pools.PoolCalls,
    "client.limits": client_pools.LimitCalls,
    "client.cohorts": client_pools.CohortCalls,
    "client.nodes": cluster.NodeCalls,
    "client.events": cluster.EventCalls,
    "client.tokens": client_access.TokenCalls,
    "client.users": client_access.UserCalls,
    "client.roles": client_access.RoleCalls,
    "client.credentials": client_access.CredentialCalls,
}


def client_calls() -> Iterator[str]:
    """Every call with its docstring."""
    for where, kind in CLIENT.items():
        yield f"### {where}"
        for name, member in vars(kind).items():
            if isinstance(member, call | stream):
                yield f"```text\n{where}.{name}{_signature(member.function)}\n```"
                yield inspect.cleandoc(member.__doc__ or "")


def _signature(function: Callable[..., Any]) -> str:
    """As it is written, so that it is the same in each version of Python."""
    found = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef)
    found.args.args.pop(0)
    answer = "None" if found.returns is None else ast.unparse(found.returns)
    answer = re.sub(r"AsyncGenerator\[(.*), None\]$", r"Iterator[\1]", answer.replace("'", ""))
    arguments = ast.unparse(found.args)
    if len(arguments) > WIDE:
        arguments = "\n    " + re.sub(r", (?=\w+: )", ",\n    ", arguments) + "\n"
    return f"({arguments}) -> {answer}"


# ---------------------------------------------------------------- settings of pools


def setting_rows() -> Iterator[str]:
    rows = ["| field | type | default | |", "|---|---|---|---|"]
    for each in settings.SETTINGS:
        see = f" ([{each.label}]({each.see}))" if each.see else ""
        usual = each.text(settings.default(each)) or each.unset
        rows.append(f"| `{each.asked}` | {_cell(each.kind.type)} | {usual} | {_cell(each.what)}{see} |")
    yield "\n".join(rows)


# ---------------------------------------------------------------- roles

_ROLES = ("admin", "viewer", "vision-admin", "vision-user", "vision-viewer", "")
_MARKS = {(True, True): "yes", (False, True): "own", (False, False): "-"}


def permission_list() -> Iterator[str]:
    """The permissions of each role on `vision` and its subpools; own: only for the user's own work."""
    rows = [f"| needs | {' | '.join(f'`{role}`' if role else 'none' for role in _ROLES)} |", "|---" * 7 + "|"]
    for permission in access.Permission:
        cells = []
        for role in _ROLES:
            grants = (access.role_named(role),) if role else ()
            who = access.Identity("alice", grants)
            of_work = permission is access.Permission.CHANGE_WORKFLOW
            owners = ("bob", "alice") if of_work else (None, None)
            others, mine = (access.allows(who, permission, pool="vision--a", owner=each) for each in owners)
            cells.append(_MARKS[others, mine])
        rows.append(f"| {permission.value} | {' | '.join(cells)} |")
    yield "\n".join(rows)


# ---------------------------------------------------------------- examples


def example_list() -> Iterator[str]:
    """A table per folder of `examples/`."""
    tables: dict[str, list[str]] = {}
    for name, each in example.known().items():
        folder, _, short = name.partition("/")
        row = f"| [{short}](../../examples/{name}.yaml) | {_cell(each.description)} |"
        tables.setdefault(folder, []).append(row)
    for folder, rows in tables.items():
        yield f"## {folder}"
        yield "\n".join(["| example | |", "|---|---|", *rows])


# ---------------------------------------------------------------- rights on Kubernetes


def right_list() -> Iterator[str]:
    rows = ["| resources | verbs | without it |", "|---|---|---|"]
    for right in RIGHTS:
        where = "in the namespace: " if right.inside else ""
        without = f"{right.without}; everything else works" if right.optional else right.without
        rows.append(f"| {where}`{right.name}` | {', '.join(right.verbs)} | {without} |")
    yield "\n".join(rows)


# ---------------------------------------------------------------- states

_BY_EVENT = {key: (then,) for key, then in pools.TRANSITIONS.items()}
_GANG = {key: (then,) for key, then in transitions.GANG.items()}
_TABLES: dict[str, Mapping[tuple[Any, Any], tuple[Any, ...]]] = {
    "A gang": _GANG,
    "A group": transitions.GROUP,
    "A task": transitions.TASK,
    "A pool": _BY_EVENT,
}


def state_diagrams() -> Iterator[str]:
    """End states reached by the same steps share a box."""
    for title, table in _TABLES.items():
        edges: dict[tuple[str, str], dict[str, None]] = {}
        for (state, event), targets in table.items():
            for then in targets:
                edges.setdefault((_drawn(state), _drawn(then)), {})[_event(event)] = None
        boxes = _boxes(edges)
        lines = {
            f"    {before} --> {boxes[then][0]}: {', '.join(events)}": None for (before, then), events in edges.items()
        }
        named = {f'    state "{text}" as {id}': None for id, text in boxes.values() if id != text}
        yield f"### {title}"
        yield "\n".join(["```mermaid", "stateDiagram-v2", *named, *lines, "```"])


def _drawn(state: Any) -> str:
    return "[*]" if state is None else str(state.value)


def _event(event: Any) -> str:
    return event.__name__ if isinstance(event, type) else str(event.value)


def _boxes(edges: Mapping[tuple[str, str], Mapping[str, None]]) -> dict[str, tuple[str, str]]:
    """State → the id and the text of its box."""
    befores = {before for before, _ in edges}
    states = dict.fromkeys(each for edge in edges for each in edge)
    alike: dict[object, list[str]] = {}
    for state in states:
        leads_here = tuple((before, tuple(events)) for (before, then), events in edges.items() if then == state)
        alike.setdefault(state if state in befores else leads_here, []).append(state)
    return {
        state: (state, state) if len(box) == 1 else (f"{box[0]}_", "<br/>".join(box))
        for box in alike.values()
        for state in box
    }


SECTIONS: dict[str, Callable[[], Iterable[str]]] = {
    "client": client_calls,
    "commands": command_reference,
    "routes": other_routes,
    "our-routes": our_routes,
    "permissions": permission_list,
    "rights": right_list,
    "examples": example_list,
    "error-messages": messages.error_rows,
    "reason-messages": messages.reason_rows,
    "states": state_diagrams,
    "settings": setting_rows,
}


# ---------------------------------------------------------------- pages


def pages() -> list[Path]:
    """Every page of the project, those at the top of the repository first."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def with_sections(text: str) -> str:
    """*text* with what is generated in it as the code says now."""
    return _SECTION.sub(lambda match: section(match["name"]), text)


def section(name: str) -> str:
    body = "\n\n".join(SECTIONS[name]())
    return f"<!-- generated: {name} -->\n\n{body}\n\n<!-- end -->"


def broken_links() -> Iterator[str]:
    """Yields a sentence for each broken link between our pages or to one of our files."""
    for page in pages():
        for match in _LINK.finditer(_FENCE.sub("", page.read_text(encoding="utf-8"))):
            target, _, anchor = match["target"].partition("#")
            if "://" in target or target.startswith("mailto:"):
                continue
            there = (page.parent / target).resolve() if target else page
            if not there.exists():
                yield f"{page.relative_to(ROOT)}: {target} does not exist"
            elif anchor and there.suffix == ".md" and anchor not in _anchors(there):
                yield f"{page.relative_to(ROOT)}: {there.name} has no heading {anchor!r}"


def _anchors(page: Path) -> set[str]:
    """Headings of *page* as links name them."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return {
        re.sub(r"[^\w\- ]", "", match["text"].lower()).strip().replace(" ", "-") for match in _HEADING.finditer(text)
    }


def stale() -> dict[Path, str]:
    """Pages and drawings that differ from the code, with the text that they should have."""
    wanted = {page: with_sections(page.read_text(encoding="utf-8")) for page in pages()}
    wanted |= {ROOT / "docs" / "pictures" / name: draw() for name, draw in drawings.DRAWINGS.items()}
    return {
        path: text for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m docs.generate", description="Keeps the docs in step with the code."
    )
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit code 1 if anything is stale or broken"
    )
    check = parser.parse_args().check
    problems = []
    for page, text in stale().items():
        name = page.relative_to(ROOT)
        if check:
            problems.append(f"{name} is stale: `make docs` writes it anew")
        else:
            page.write_text(text, encoding="utf-8")
            print(f"written: {name}")
    problems += broken_links()
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
