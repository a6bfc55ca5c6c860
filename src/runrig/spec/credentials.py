"""`credentials:` of a task: a map from a credential to a folder or to variables; and the values of a credential."""

import posixpath
import re
from itertools import pairwise

import yaml

from runrig.domain.credentials import CredentialUse, name_problem
from runrig.domain.errors import InvalidInput
from runrig.domain.workflows import FileSpec
from runrig.spec.fields import Field, Fields
from runrig.spec.yamltree import checked_text

MOST = 32
"""Maximum number of credentials of a task."""

_AROUND = (
    yaml.StreamStartEvent,
    yaml.DocumentStartEvent,
    yaml.MappingStartEvent,
    yaml.MappingEndEvent,
    yaml.DocumentEndEvent,
    yaml.StreamEndEvent,
)
"""The events of one flat mapping, without its keys and values."""

_HOW = "use a folder, such as /etc/keys, or VARIABLE: key"


def read_values(text: str, what: str) -> dict[str, str]:
    """Returns the values in lines ``KEY: VALUE``. Raises InvalidInput without quoting a value. *what*: names the text."""
    try:
        events = list(yaml.parse(checked_text(text, what), Loader=yaml.CBaseLoader))
    except yaml.YAMLError:
        events = []
    pairs = [each for each in events if isinstance(each, yaml.ScalarEvent)]
    if len(pairs) != len(events) - len(_AROUND) or not isinstance(events[2], _AROUND[2]) or not pairs:
        raise InvalidInput.one(f"the {what} is not a list of values. Use lines KEY: VALUE.", "values")
    found: dict[str, str] = {}
    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
        if key.value in found:
            raise InvalidInput.one(f"the {what} has the key {key.value!r:.80} twice. Keep one of them.", "values")
        found[key.value] = value.value.rstrip("\r\n")
    return found


def read_credentials(
    fields: Fields, variable: re.Pattern[str], files: tuple[FileSpec, ...]
) -> tuple[CredentialUse, ...]:
    """*variable*: the pattern of variable names. *files*: of the task."""
    whole = fields["credentials"]
    if not whole:
        return ()
    found: list[CredentialUse] = []
    for name, field in whole.entries():
        problem = name_problem(name)
        if problem is not None:
            field.wrong(problem)
        use = _use(name, field, variable)
        if use is not None:
            found.append(use)
    if len(found) > MOST:
        whole.wrong(f"too many credentials for one task ({len(found)}, maximum {MOST})")
    _check_apart(whole, found, [file.path for file in files])
    _check_variables(whole, found, [key for key, _ in fields["environment"].entries()])
    return tuple(found)


def _use(name: str, field: Field, variable: re.Pattern[str]) -> CredentialUse | None:
    if isinstance(field.node.value, str):
        path = _path(field)
        return None if path is None else CredentialUse(name, path=path)
    if not isinstance(field.node.value, dict):
        field.wrong(f"expected a folder or a map, got {field.shown()}: {_HOW}")
        return None
    variables: dict[str, str] = {}
    for key, item in field.entries():
        if not variable.fullmatch(key):
            item.wrong(f"{key!r} is not a variable name. Use letters, digits and '_', and do not start with a digit.")
        variables[key] = item.text() or ""
    if not variables:
        field.wrong(f"is empty: {_HOW}")
    return CredentialUse(name, variables=variables)


def _path(field: Field) -> str | None:
    """Returns the normalised absolute path."""
    path = field.text() or ""
    wrong = (
        not path.startswith("/")
        or ".." in path.split("/")
        or ":" in path
        or not path.isprintable()
        or len(path.encode()) > 1024
        or any(len(part.encode()) > 255 for part in path.split("/"))
    )
    short = "/" + posixpath.normpath(path).lstrip("/")
    if wrong or short == "/":
        field.wrong(
            f"{path!r:.80} is not a folder for a credential. Use an absolute path without '..' and ':', such as /etc/keys."
        )
        return None
    return short


def _check_apart(whole: Field, found: list[CredentialUse], files: list[str]) -> None:
    """Reports folders inside another one, and folders that contain a file of the task."""
    paths = sorted(each.path for each in found if each.path)
    for one, other in pairwise(paths):
        if other == one or other.startswith(f"{one}/"):
            whole.wrong(f"{other!r} is inside {one!r}, the folder of another credential")
    for path in paths:
        for file in files:
            if file == path or file.startswith(f"{path}/") or path.startswith(f"{file}/"):
                whole.wrong(f"{path!r} and the file {file!r} use the same path")


def _check_variables(whole: Field, found: list[CredentialUse], environment: list[str]) -> None:
    taken = environment + [name for each in found for name in each.variables]
    for name in sorted({name for name in taken if taken.count(name) > 1}):
        whole.wrong(f"the variable {name!r} has a value already")
