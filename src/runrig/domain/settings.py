"""The settings of a pool, one row each. Cluster files, the API, the command line, the page and the docs all use this
table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

from runrig.domain.pools import MARKS, MOST_WEIGHT, BudgetReached, Pool, Queueing, TopologyKey, exit_actions
from runrig.domain.spans import format_duration
from runrig.domain.value import Word, at, utc

NOTHING = "none"
MOST_LIMIT = 1_000_000
"""Maximum of a limit (rule W6)."""
MOST_BUDGET = 1_000_000_000
"""Maximum of a budget, in GPU-hours (rule W7)."""
LONGEST_TEXT = 1000
LONGEST_GRACE_S = 86_400.0

PARTS: Mapping[str, str] = {"nominal": "quota", "borrowing_limit": "borrowing_limit", "lending_limit": "lending_limit"}
"""Parts of a quota → their names in requests. A subpool has only a quota (rule S5)."""

# ---------------------------------------------------------------- how values are written


@dataclass(frozen=True, slots=True)
class SettingKind:
    """How the values of a setting are written: in files and requests (*plain*), and as text; `spec.settings` parses
    files.

    *takes*: the type in requests. *repeats*: the command line option is repeated for each item. *unit*: shown after the
    number.
    """

    type: str
    metavar: str = "TEXT"
    takes: Any = str
    repeats: bool = False
    unit: str = ""

    def shown(self, value: Any) -> Any:
        """The value of a `Pool` as responses show it."""
        return value

    def plain(self, shown: Any) -> Any:
        return list(shown) if isinstance(shown, tuple) else shown

    def text(self, plain: Any) -> str:
        """The value as one line that `parse` reads; "" for no value."""
        return "" if plain is None else str(plain)

    def parse(self, text: str) -> Any:
        """The plain value of *text*. Raises ValueError."""
        return text

    def problem(self, value: Any) -> str | None:  # noqa: ARG002 - of those that have a rule
        """Why *value* cannot be stored; None if it can."""
        return None


@dataclass(frozen=True, slots=True)
class Text(SettingKind):
    """One line."""

    def problem(self, value: Any) -> str | None:
        if value is None:
            return None
        if len(value) > LONGEST_TEXT or not value.isprintable():
            return f"must be one line of at most {LONGEST_TEXT} printable characters"
        return "must be plain text without < and >" if "<" in value or ">" in value else None


@dataclass(frozen=True, slots=True)
class Number(SettingKind):
    """A whole number, or with *takes* float any number, from *least* to *most*."""

    least: float = 0
    most: float = 2**63 - 1

    def text(self, plain: Any) -> str:
        return "" if plain is None else f"{plain:.15g}" if isinstance(plain, float) else str(plain)

    def parse(self, text: str) -> Any:
        number = text.strip()
        if not (
            number.isascii() and number.replace(".", "", int(self.takes is float)).isdecimal() and len(number) < 19
        ):
            raise ValueError(f"{text!r} is not {self.type}")
        return self.takes(number)

    def problem(self, value: Any) -> str | None:
        if value is None or self.least <= value <= self.most:
            return None
        return f"{self.text(value):.60} is out of range: use {self.type}"


@dataclass(frozen=True, slots=True)
class Duration(SettingKind):
    """Seconds. Written as ``90m`` or ``2h`` in files and requests."""

    def plain(self, shown: Any) -> Any:
        return format_duration(shown) if isinstance(shown, int | float) else shown


@dataclass(frozen=True, slots=True)
class Image(SettingKind):
    """An image reference."""

    def problem(self, value: Any) -> str | None:
        fits = value is None or (
            0 < len(value) <= LONGEST_TEXT and value.isprintable() and value == "".join(value.split())
        )
        return None if fits else f"must be an image reference without spaces, such as ubuntu:24.04, not {value!r:.80}"


@dataclass(frozen=True, slots=True)
class CohortName(SettingKind):
    """The name of a cohort, which need not be defined in the same file."""


@dataclass(frozen=True, slots=True)
class Choice(SettingKind):
    """One of the words *of*, in any case."""

    of: type[Word] = Word

    def plain(self, shown: Any) -> Any:
        return None if shown is None else str(shown)


@dataclass(frozen=True, slots=True)
class Names(SettingKind):
    """A list of names."""

    def text(self, plain: Any) -> str:
        return ", ".join(plain)

    def parse(self, text: str) -> Any:
        return [name for name in (each.strip() for each in text.split(",")) if name]


@dataclass(frozen=True, slots=True)
class Keys(SettingKind):
    """A list of ``{key, label}``; ``rack=topology.kubernetes.io/rack`` as text."""

    def plain(self, shown: Any) -> Any:
        return [each if isinstance(each, Mapping) else {"key": each.key, "label": each.label} for each in shown]

    def text(self, plain: Any) -> str:
        return ", ".join(f"{each['key']}={each['label']}" for each in plain)

    def parse(self, text: str) -> Any:
        return [dict(zip(("key", "label"), pair, strict=True)) for pair in _pairs(text.split(","), self.metavar)]


@dataclass(frozen=True, slots=True)
class Codes(SettingKind):
    """Exit action → exit codes; ``RESCHEDULE=75,100-110`` as text."""

    def shown(self, value: Any) -> Any:
        return exit_actions(value)

    def text(self, plain: Any) -> str:
        return " ".join(f"{action}={codes}" for action, codes in plain.items())

    def parse(self, text: str) -> Any:
        return dict(_pairs(text.split(), self.metavar))


def _pairs(parts: Sequence[str], form: str) -> list[tuple[str, str]]:
    pairs = [part.strip().partition("=") for part in parts if part.strip()]
    for name, sign, value in pairs:
        if not (name and sign and value):
            raise ValueError(f"{name + sign + value!r} is not {form}")
        if (others := {other for again, _, other in pairs if again == name}) != {value}:
            raise ValueError(f"{name} is set twice: {' and '.join(sorted(others))}")
    return [(name, value) for name, _, value in pairs]


# ---------------------------------------------------------------- the table


@dataclass(frozen=True, slots=True)
class Setting:
    """A row of the table. *name*: the field of `Pool` and of responses. *what*: the description in help and docs.

    *as_asked*, *reference*: the name in files and requests, and in osmo's configuration, if it differs.
    `promise`: changes can affect other pools, so they require a cluster administrator. *removable*: null removes it.
    *unset*: the meaning of no value. *see*: a page of the docs. *title*: what people call it, if not by its name.
    """

    name: str
    kind: SettingKind
    what: str
    as_asked: str = ""
    reference: str = ""
    promise: bool = False
    removable: bool = False
    unset: str = NOTHING
    see: str = ""
    title: str = ""

    @property
    def asked(self) -> str:
        return self.as_asked or self.name

    @property
    def label(self) -> str:
        return self.asked.removesuffix("_s").replace("_", " ")

    def of(self, pool: Pool) -> Any:
        """The value in *pool*, as responses show it."""
        return self.kind.shown(getattr(pool, self.name))

    def plain(self, pool: Pool) -> Any:
        return self.kind.plain(self.of(pool))

    def text(self, shown: Any) -> str:
        return self.kind.text(self.kind.plain(shown)) if shown is not None else ""

    def in_words(self, shown: Any) -> str:
        text = self.text(shown)
        return text + self.kind.unit if text else self.unset

    def parse(self, text: str) -> Any:
        """The plain value of *text*; None for "" if the setting is removable. Raises ValueError."""
        return None if self.removable and not text.strip() else self.kind.parse(text.strip())


WEIGHT = Setting(
    "weight",
    Number(f"a whole number from 1 to {MOST_WEIGHT}", "N", int, least=1, most=MOST_WEIGHT),
    "Share of borrowed capacity relative to siblings; effective as soon as weights differ",
    promise=True,
    see="preemption.md#weights",
)
"""Also a setting of cohorts."""

SETTINGS: tuple[Setting, ...] = (
    Setting("description", Text("text"), "Purpose of the pool"),
    Setting(
        "cohort",
        CohortName("cohort", "NAME"),
        "Cohort of the pool; by default it is below the root",
        promise=True,
        removable=True,
    ),
    Setting(
        "queueing",
        Choice(" or ".join(Queueing), "|".join(Queueing), of=Queueing),
        "BEST_EFFORT_FIFO lets later gangs start while the head waits; STRICT_FIFO does not",
    ),
    WEIGHT,
    Setting(
        "grace_s",
        Number(f"seconds from 0 to {LONGEST_GRACE_S:.0f}", "SECONDS", float, unit="s", most=LONGEST_GRACE_S),
        "Time between SIGTERM and SIGKILL",
    ),
    Setting(
        "flavors",
        Names("list of flavors", "NAME", list[str], repeats=True),
        "Flavors to use, in order of preference. A gang uses the first in which it fits; preemption is considered only if it "
        "fits in none",
        promise=True,
        unset="all",
    ),
    Setting(
        "topology_keys",
        Keys("list of `{key, label}`", "KEY=LABEL", list[TopologyKey], repeats=True),
        "Topology levels that workflows can name, coarse to fine. Not available on the local backend",
        see="topology.md",
    ),
    Setting(
        "default_platform", SettingKind("flavor", "NAME"), "Flavor for resources without a platform", removable=True
    ),
    Setting(
        "default_exit_actions",
        Codes("action → codes", "ACTION=CODES", dict[str, str], repeats=True),
        "Actions by exit code, after the task's own `exitActions`",
    ),
    Setting(
        "default_run_time_s",
        Duration("duration", "DURATION"),
        "Run time limit (`exec_timeout`) of workflows that set none. Default: the maximum",
        as_asked="default_run_time",
        reference="default_exec_timeout",
        removable=True,
    ),
    Setting(
        "max_run_time_s",
        Duration("duration", "DURATION"),
        "Maximum run time that new workflows can request, such as 90m, 2h or 1d. Accepted workflows keep their limit",
        as_asked="max_run_time",
        reference="max_exec_timeout",
        removable=True,
    ),
    Setting(
        "user_gpus",
        Number(f"a whole number from 1 to {MOST_LIMIT}", "N", int, least=1, most=MOST_LIMIT),
        "Maximum number of GPUs that one user uses at the same time in the pool and its subpools (rule W6)",
        removable=True,
        title="limit of GPUs per user",
    ),
    Setting(
        "user_waiting",
        Number(f"a whole number from 1 to {MOST_LIMIT}", "N", int, least=1, most=MOST_LIMIT),
        "Maximum number of workflows of one user that wait in the pool and its subpools (rule W6)",
        removable=True,
        title="limit of waiting workflows per user",
    ),
    Setting(
        "gpus_per_workflow",
        Number(f"a whole number from 1 to {MOST_LIMIT}", "N", int, least=1, most=MOST_LIMIT),
        "Maximum number of GPUs that one workflow requests, all of its task groups together (rule W6)",
        removable=True,
        title="limit of GPUs per workflow",
    ),
    Setting(
        "budget",
        Number(f"a whole number from 1 to {MOST_BUDGET}", "GPU_HOURS", int, least=1, most=MOST_BUDGET),
        "Maximum number of GPU-hours that the pool and its subpools use in a calendar month, in UTC (rule W7)",
        removable=True,
        title="budget of GPU-hours per month",
        see="limits.md#budgets",
    ),
    Setting(
        "budget_reached",
        Choice(" or ".join(BudgetReached), "|".join(BudgetReached), of=BudgetReached),
        "Effect of a reached budget: STOP (the default) starts nothing new until the month ends; BORROW starts only LOW "
        "work, on idle GPUs. Running work continues",
        removable=True,
    ),
    Setting(
        "default_image",
        Image("image", "IMAGE"),
        "Image of `runrig run` and `runrig shell` without `--image`",
        removable=True,
        see="cli.md#run-a-command",
    ),
    Setting(
        "shell_idle_s",
        Duration("duration", "DURATION"),
        "Time without input after which new shells of `runrig shell` end, such as 30m. A program in the foreground prevents this",
        as_asked="shell_idle",
        removable=True,
    ),
)

PROMISED = frozenset({*PARTS.values(), *(each.asked for each in SETTINGS if each.promise)})
"""Fields of a request that affect other pools if they are changed on a top-level pool."""


def named(name: str) -> Setting | None:
    """The setting with the name *name*, or None."""
    return next((each for each in SETTINGS if each.name == name), None)


_NAMES = [each.name for each in SETTINGS]
values = attrgetter(*_NAMES)  # of a pool, read in one call, because a response can have thousands of pools
_CONVERTED = [each for each in SETTINGS if type(each.kind).shown is not SettingKind.shown]


def shown(pool: Pool) -> dict[str, Any]:
    """All settings by name, as responses show them."""
    found = dict(zip(_NAMES, values(pool), strict=True))
    for each in _CONVERTED:
        found[each.name] = each.of(pool)
    return found


def default(setting: Setting) -> Any:
    """The value in a new pool, as responses show it."""
    return setting.of(Pool(""))


def called(name: str) -> str:
    """The label of a field of a pool or cohort, for people."""
    setting = named(name)
    return PARTS.get(name, name).replace("_", " ") if setting is None else setting.title or setting.label


def in_words(name: str, shown: Any) -> str:
    """The value *shown* of the field *name* of a response, for people: ``2h``, ``none``."""
    setting = named(name)
    if setting is not None:
        return setting.in_words(shown)
    if name in MARKS and isinstance(shown, float):
        return utc(at(shown))
    return NOTHING if shown in (None, "", [], (), {}) else str(shown)


def problems(pool: Pool) -> list[tuple[str, str]]:
    """(name in requests, message) for each invalid setting of *pool*."""
    found = ((each, each.kind.problem(getattr(pool, each.name))) for each in SETTINGS)
    return [(each.asked, f"{each.label} {text}") for each, text in found if text]


assert {each.name for each in SETTINGS} <= {each.name for each in fields(Pool)}, "a setting is a field of a pool"
