"""A workflow file without secrets, for users who can see a workflow but not its keys."""

from typing import Any

import yaml

from runrig.spec.yamltree import plain, read_yaml

HIDDEN = "(hidden)"
_NOTE = "# The values of variables and the contents of files are shown to the owner and to admins of the pool.\n"


def masked(text: str) -> str:
    """Returns *text*, a valid workflow file, without comments, values of variables and contents of files."""
    return _NOTE + yaml.safe_dump(_masked(plain(read_yaml(text).node)), sort_keys=False, allow_unicode=True, width=120)


def _masked(value: Any) -> Any:
    if isinstance(value, list):
        return [_masked(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: _hidden(key, each) for key, each in value.items()}


def _hidden(key: str, value: Any) -> Any:
    match key:
        case "environment":
            return dict.fromkeys(value, HIDDEN) if isinstance(value, dict) else HIDDEN
        case "contents":
            return HIDDEN
    return _masked(value)
