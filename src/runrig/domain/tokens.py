"""Template tokens that are filled in per task: ``{{output}}``, ``{{input:…}}``, ``{{host:…}}``, ``{{array_index}}`` and so on."""

import base64
import re
from collections.abc import Mapping

from runrig.domain.workflows import FileSpec

TOKEN = re.compile(
    r"\{\{(uuid|workflow_id|output|index|count|array_index|array_count|(?:input|host|array):[A-Za-z0-9_-]+)\}\}"
)


def expand(text: str, values: Mapping[str, str]) -> str:
    """*text* with each token replaced by its value. Tokens without a value stay."""
    return TOKEN.sub(lambda match: values.get(match[1], match[0]), text)


def tokens_in(text: str) -> tuple[str, ...]:
    """The tokens in *text*, without braces, in order."""
    return tuple(match[1] for match in TOKEN.finditer(text))


def contents_of(file: FileSpec, values: Mapping[str, str]) -> bytes:
    """The contents of *file* as the task finds it. Raises ValueError, with a message for users, if it is not valid base64."""
    if not file.base64:
        return expand(file.contents, values).encode(errors="surrogateescape")
    try:
        return base64.b64decode("".join(file.contents.split()), validate=True)
    except ValueError:
        raise ValueError(f"file {file.path!r} is not base64") from None


def array_environment(values: Mapping[str, str]) -> dict[str, str]:
    """The variables of an element of an array. *values*: those of its tokens; none: it is not an element."""
    own = {f"RUNRIG_{name.upper()}": value for name, value in values.items() if not name.startswith("array:")}
    return {name.removeprefix("array:"): value for name, value in values.items() if name.startswith("array:")} | own


def name_in_array(pod: str, values: Mapping[str, str]) -> str:
    """The name of *pod* in the file of an array, where names have no index. *values*: as in `array_environment`."""
    return re.sub(rf"-{values['array_index']}((?:-[0-9]+)?)$", r"\1", pod) if values else pod
