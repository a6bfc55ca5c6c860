"""Template tokens that are filled in per task: ``{{output}}``, ``{{input:…}}``, ``{{host:…}}`` and so on."""

import base64
import re
from collections.abc import Mapping

from runrig.domain.workflows import FileSpec

TOKEN = re.compile(r"\{\{(uuid|workflow_id|output|index|count|(?:input|host):[A-Za-z0-9_-]+)\}\}")


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
