"""Values for indexes, computed from columns of JSON. Names of columns are not qualified, as an index has them."""

from typing import Any

from sqlalchemy import BigInteger
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

_DURATION = {
    "sqlite": (
        "(CASE WHEN json_valid(times) THEN {kept} - CASE WHEN json_extract(times, '$.now') = '{name}' THEN {since} + 1 ELSE 0 END"
        " ELSE 0 END)",
        "cast(round(coalesce(json_extract(times, '$.{}'), 0) * 1000000) AS integer)",
    ),
    "postgresql": (
        "({kept} - CASE WHEN times->>'now' = '{name}' THEN {since} + 1 ELSE 0 END)",
        "cast(round(CASE WHEN json_typeof(times->'{}') = 'number'"
        " THEN greatest(least(cast(times->>'{}' AS numeric), 1e12), 0) ELSE 0 END * 1000000) AS bigint)",
    ),
}
_IS_ARRAY = {
    "sqlite": "(CASE WHEN json_valid(spec) THEN json_type(spec, '$.array') END = 'object')",
    "postgresql": "(json_typeof(spec->'array') = 'object')",
}


class Duration(FunctionElement[int]):
    """Microseconds that a workflow has waited or run; 0 if its row is damaged.

    If it does so now, less the moment since when, and less 1. That is below 0 and stays the same while time passes, and it
    orders such workflows as their times do.
    """

    type = BigInteger()
    inherit_cache = True
    name: str


class Waited(Duration):
    inherit_cache = True
    name = "waited"


class Ran(Duration):
    inherit_cache = True
    name = "running"


class IsArray(FunctionElement[bool]):
    """Whether a specification is one. It has no type: SQLAlchemy would compare a boolean with 1, and SQLite would see no index."""

    inherit_cache = True


@compiles(Duration)
def _duration(element: Duration, compiler: Any, **_: Any) -> str:
    whole, micros = _DURATION[compiler.dialect.name]
    kept, since = (micros.replace("{}", name) for name in (element.name, "since"))
    return whole.format(name=element.name, kept=kept, since=since)


@compiles(IsArray)
def _is_array(_: IsArray, compiler: Any, **_more: Any) -> str:
    return _IS_ARRAY[compiler.dialect.name]
