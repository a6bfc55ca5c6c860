"""Templates of workflow files: Jinja2, in a child process with hard limits (osmo.md 3.5).

Variables come from ``--set-string``, then ``--set``, then `default-values`. Tokens of `domain.tokens` stay. A template
is untrusted code, so it never runs in this process.
"""

import importlib.util
import json
import math
import re
import signal
import subprocess
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from runrig.domain.errors import InvalidInput, Problem, ServerFault, Unavailable
from runrig.domain.tokens import TOKEN
from runrig.spec import template_child
from runrig.spec.fields import closest
from runrig.spec.yamltree import checked_text, plain, read_yaml

START_S = 20.0
"""Time limit for the child including its start, in seconds; for a very busy machine."""
MOST_VARIABLES = 1_000

_MARKERS = ("{%", "{{", "{#")
_DEFAULTS = re.compile(r"""(["']?)default-values\1\s*:""")
_OPEN, _CLOSE = "\x02", "\x03"  # Stand for the braces of tokens, because no file can contain these characters.
_CHILD = str(Path(__file__).with_name("template_child.py"))


def render(text: str, set_variables: Sequence[str] = (), set_string_variables: Sequence[str] = ()) -> str:
    """Returns *text* rendered and without `default-values`. Lines keep their numbers up to the first loop.

    Starts no process for a text without template markers. Raises InvalidInput, also for settings that the file does not
    use and templates that need too much time or memory; Unavailable or ServerFault if rendering fails.
    """
    text = checked_text(text, "workflow file")
    settings = _all_settings(set_variables, set_string_variables)
    variables, text = _without_defaults(text)
    if not is_template(text):
        _check_used(settings, variables)
        return text
    head, skipped, template = _split(text)
    answer = _run({"template": template, "variables": {**variables, **settings}})
    _check_used(settings, {*variables, *answer["used"]})
    body = answer["text"][len(skipped) :].replace(_OPEN, "{{").replace(_CLOSE, "}}")
    return checked_text(head + body, "rendered workflow file")


def check_settings(text: str, set_variables: Sequence[str] = (), set_string_variables: Sequence[str] = ()) -> None:
    """Refuses the settings that `render` would refuse for *text*, without rendering it. Raises as `render`."""
    settings = _all_settings(set_variables, set_string_variables)
    variables, text = _without_defaults(checked_text(text, "template"))
    known = set(variables)
    if not known.issuperset(settings) and is_template(text):
        known |= set(_run({"template": _split(text)[2]})["used"])
    _check_used(settings, known)


def is_template(text: str) -> bool:
    """Whether *text* has markers other than tokens."""
    without = TOKEN.sub("", text)
    return any(marker in without for marker in _MARKERS)


def _all_settings(set_variables: Iterable[str], set_string_variables: Iterable[str]) -> dict[str, object]:
    return {**_settings(set_variables, "--set"), **_settings(set_string_variables, "--set-string")}


def _settings(items: Iterable[str], option: str) -> dict[str, object]:
    values: dict[str, object] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name.isidentifier():
            raise InvalidInput.one(f"{item!r} does not set a variable. Use {option} NAME=VALUE")
        values[name] = _typed(value) if option == "--set" else value
    if len(values) > MOST_VARIABLES:
        raise InvalidInput.one(f"too many {option} options ({len(values)}, maximum {MOST_VARIABLES})")
    return values


def _typed(value: str) -> int | float | str:
    """Returns a whole number, else a finite number, else the text."""
    if re.fullmatch(r"[-+]?[0-9]{1,1000}", value):
        return int(value)
    try:
        number = float(value)
    except ValueError:
        return value
    return number if math.isfinite(number) and "_" not in value else value


def _check_used(settings: Iterable[str], known: Collection[str]) -> None:
    """Refuses an unknown name, because the workflow would run with the default instead."""
    unknown = [name for name in settings if name not in known]
    if unknown:
        why = "this file has no variable {!r}. {}"
        raise InvalidInput(tuple(Problem(why.format(name, closest(name, sorted(known)))) for name in unknown))


# ---------------------------------------------------------------- the parts of a file


def _without_defaults(text: str) -> tuple[dict[str, object], str]:
    """Returns the values of the block `default-values`, and *text* with empty lines in its place."""
    block: list[str] = []
    rest: list[str] = []
    inside = found = False
    for line in text.splitlines(keepends=True):
        if _DEFAULTS.match(line):
            if found:
                raise InvalidInput((Problem("default-values is defined twice. Keep one.", line=len(rest) + 1),))
            inside = found = True
        elif inside and line.strip() and line[0] not in " #":
            inside = False
        block.append(line if inside else "\n")
        rest.append("\n" if inside else line)
    return (_default_values("".join(block)) if found else {}), "".join(rest)


def _default_values(block: str) -> dict[str, object]:
    document = read_yaml(block, "default-values")
    if document.problems:
        raise InvalidInput(document.problems)
    values = plain(document.node)["default-values"]
    if values is None:
        return {}
    if not isinstance(values, dict):
        place = document.node.place
        message = "default-values: expected a mapping of names to values"
        raise InvalidInput((Problem(message, "default-values", place.line if place else None),))
    return values


def _split(text: str) -> tuple[str, str, str]:
    """Returns (leading comments and empty lines, which are not a template; empty lines instead; those and the rest,
    with tokens hidden).
    """
    lines = text.splitlines(keepends=True)
    count = 0
    while count < len(lines) and (not lines[count].strip() or lines[count].startswith("#")):
        count += 1
    head = "".join(lines[:count])
    skipped = "\n" * head.count("\n")
    return head, skipped, skipped + TOKEN.sub(lambda match: f"{_OPEN}{match[1]}{_CLOSE}", "".join(lines[count:]))


# ---------------------------------------------------------------- the child


def _run(request: dict[str, object]) -> dict[str, Any]:
    """Returns the child's answer to *request*. The child has an empty environment, and jinja2 as its only library."""
    command = [sys.executable, "-I", "-S", _CHILD, _folder_of("jinja2")]
    try:
        done = subprocess.run(  # noqa: S603  the command contains no user input
            command, input=json.dumps(request).encode(), capture_output=True, timeout=START_S, env={}, check=False
        )
    except (subprocess.TimeoutExpired, OSError) as error:
        raise Unavailable(f"the template could not be rendered now ({type(error).__name__}). Try again") from None
    if done.returncode in (-signal.SIGPROF, -signal.SIGALRM):
        raise _broken(f"it took longer than {template_child.CPU_S} s. Check it for endless loops.", None)
    if done.returncode > 0 and b"MemoryError" not in done.stderr:
        raise ServerFault(f"templates cannot be rendered here: {done.stderr[-300:].decode(errors='replace')}")
    if done.returncode:
        raise _broken(f"it needs more than {template_child.MEMORY_BYTES // 2**20} MiB of memory", None)
    answer: dict[str, Any] = json.loads(done.stdout)
    if "error" in answer:
        raise _broken(answer["error"].rstrip("."), answer["line"], syntax="syntax" in answer)
    return answer


def _broken(why: str, line: int | None, *, syntax: bool = False) -> InvalidInput:
    advice = ""
    if "is undefined" in why:
        advice = ". Set it with --set NAME=VALUE, or under default-values."
    elif syntax:
        advice = ". To use {{, {% or {# as plain text, wrap it in {% raw %} and {% endraw %}."
    return InvalidInput((Problem(f"the template cannot be rendered: {why}{advice}", line=line),))


def _folder_of(package: str) -> str:
    """Returns the folder where *package* is installed, without importing it."""
    spec = importlib.util.find_spec(package)
    assert spec is not None, f"{package} is a dependency"
    assert spec.origin is not None, f"{package} is a package with files"
    return str(Path(spec.origin).parent.parent)
