"""Suggests the command that a wrong command line probably meant: words in another order, at another level, or known from another program.

Imported only after a mistake, because it looks at all commands (about 0.3 s).
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

import click

from runrig.domain.meant import meant

_Path = tuple[str, ...]
_Line = tuple[_Path, Sequence[str]]
"""A command, and its arguments."""

_NOUNS = {"node": "resource", "gpu": "resource", "queue": "pool", "quota": "pool", "job": "workflow", "team": "pool"}
"""Words for a group of commands → the group, if the group that was named has no such command."""
_VERBS = {
    "create": ("add", "new", "make"),
    "update": ("edit", "set", "change", "resize", "modify", "scale"),
    "delete": ("remove", "rm", "drop"),
    "list": ("ls", "ps", "get", "all", "squeue", "jobs", "queue"),
    "show": ("get", "describe", "info", "inspect", "view", "status"),
    "info": ("get", "show", "describe", "inspect", "view", "status"),
    "query": ("show", "get", "describe", "info", "inspect", "view", "status"),
    "cancel": ("kill", "stop", "delete", "remove", "rm", "scancel", "terminate"),
    "submit": ("create", "sbatch", "start", "launch"),
    "run": ("srun", "launch", "start"),
    "shell": ("salloc", "ssh", "bash", "login"),
    "logs": ("log", "output", "tail"),
    "resource": ("sinfo",),
    "reprioritise": ("reprioritize", "priority", "renice"),
}
"""A command → other words for it."""
_SHOWING = ("show", "info", "query")
"""Commands of a group that show one thing."""
_NAMING = ("--user", "--pool")
"""Options for what is often written as an argument."""
_ID = re.compile(r"[a-z0-9][a-z0-9._-]*-\d+(/\d+)?")
_EXTRA = "Got unexpected extra argument"
_MOST = 3
_NEAR = 0.7
"""How much of a typed word a suggestion has in common with it, from 0 to 1."""


def message(error: click.UsageError, args: Sequence[str]) -> str:
    """Returns the message of *error* with the commands that *args* probably meant, if any are similar."""
    context = error.ctx
    said = error.format_message()
    if context is None:
        return said
    root = context.find_root().command
    assert isinstance(root, click.Group)
    at = tuple(context.command_path.split()[1:])
    if isinstance(error, click.NoSuchCommand):
        word, rest = error.command_name, _after(args, at, error.command_name)
        commands = _Commands(root)
        found = commands.instead_of(at, word, rest)
        listed = f" Commands of `{_line(at)}`: {', '.join(commands.here(at))}." if at and not found else ""
        return f"No such command {word!r}.{_asking(found)}{listed}"
    if isinstance(error, click.NoSuchOption):
        return _moved(root, context.command, at, error.option_name, args) or said
    if said.startswith(_EXTRA):
        return _extra(root, context.command, at, said, args)
    return said


def _after(args: Sequence[str], at: _Path, word: str) -> list[str]:
    """Returns the arguments after *word*, which follows the commands *at*."""
    words = list(args)
    for each in (*at, word):
        words = words[words.index(each) + 1 :] if each in words else words
    return words


def _asking(found: Sequence[str]) -> str:
    named = [f"`{each}`" for each in found]
    either = " or ".join(part for part in (", ".join(named[:-1]), *named[-1:]) if part)
    return f" Did you mean {either}?" if found else ""


def _line(at: _Path, rest: Sequence[str] = ()) -> str:
    return shlex.join(["runrig", *at, *rest])


class _Commands:
    """All commands of the program."""

    def __init__(self, root: click.Group) -> None:
        self._all = dict(_walked(root))

    def instead_of(self, at: _Path, word: str, rest: Sequence[str]) -> list[str]:
        """Returns command lines for *word*, which is not a command of the group *at*: those of the first rule that has any that work,
        else of the first rule, without arguments.
        """
        rules = (self._noun, self._verb_first, self._name_first, self._near, self._called, self._of_kin, self._anywhere)
        found = [list(rule(at, word, rest)) for rule in rules]
        work = [[each for each in lines if self.takes(*each)] for lines in found]
        bare: list[list[_Line]] = [[(path, ()) for path, _ in lines] for lines in found]
        return next(([_line(*each) for each in lines[:_MOST]] for lines in (*work, *bare) if lines), [])

    def takes(self, at: _Path, rest: Sequence[str]) -> bool:
        """Whether the command *at* has the options, and a place for the arguments, in *rest*. Their values can still be wrong."""
        command = self._all.get(at)
        if command is None:
            return False
        if isinstance(command, click.Group):
            return not rest or ((*at, rest[0]) in self._all and self.takes((*at, rest[0]), rest[1:]))
        try:
            return not command.make_parser(click.Context(command)).parse_args(list(rest))[1]
        except click.UsageError:
            return False

    def here(self, at: _Path) -> list[str]:
        """Returns the names of the commands in the group *at*."""
        return [path[-1] for path in self._all if path[:-1] == at]

    def _noun(self, at: _Path, word: str, rest: Sequence[str]) -> Iterator[_Line]:
        """`pools list`, `pools`, `nodes`."""
        one = _singular(word)
        for noun in (one, _NOUNS.get(one, "")):
            first = rest[0] if rest else "list"
            if (one != word or noun != one) and (*at, noun, first) in self._all:
                yield (*at, noun, first), rest[1:]
                return

    def _verb_first(self, at: _Path, word: str, rest: Sequence[str]) -> Iterator[_Line]:
        """`create pool x`, `get nodes`."""
        if at or not rest:
            return
        one = _singular(rest[0])
        for noun in (one, _NOUNS.get(one, "")):
            named = self._names((noun,), word)
            if "list" in named:
                named = ["list"] if len(rest) == 1 else [each for each in named if each != "list"]
            elif named and len(rest) == 1 and one != rest[0] and (noun, "list") in self._all:
                named = ["list"]
            if named:
                yield from (((noun, each), rest[1:]) for each in named)
                return

    def _name_first(self, at: _Path, word: str, rest: Sequence[str]) -> Iterator[_Line]:
        """`pool vision show`, `train-1 logs`."""
        if rest and (*at, rest[0]) in self._all and (at or _ID.fullmatch(word)):
            yield (*at, rest[0]), [word, *rest[1:]]

    def _near(self, at: _Path, word: str, rest: Sequence[str]) -> Iterator[_Line]:
        """`pool lst`."""
        if self._named(word) or (_ID.fullmatch(word) and not at):
            return
        near = meant(word, self.here(at)) or get_close_matches(word, self.here(at), _MOST, _NEAR)
        yield from (((*at, each), rest) for each in near)

    def _called(self, at: _Path, word: str, rest: Sequence[str]) -> Iterator[_Line]:
        """`pool add x`."""
        yield from (((*at, each), rest) for each in self._names(at, word))

    def _of_kin(self, at: _Path, word: str, rest: Sequence[str]) -> Iterator[_Line]:
        """`node list`, and a name where a command is expected, as in `pool vision`."""
        kin = (_NOUNS.get(at[-1], ""),) if at else ()
        yield from (((*kin, each), rest) for each in (self._names(kin, word) if at else ()))
        for group in (at, kin) if at else ():
            for each in _SHOWING:
                if (*group, each) in self._all and not rest and not self._names(kin, word):
                    yield (*group, each), [word]

    def _anywhere(self, at: _Path, word: str, rest: Sequence[str]) -> Iterator[_Line]:
        """`drain n1`, and the ID of a workflow alone."""
        if not at and _ID.fullmatch(word):
            yield ("workflow", "query"), [word]
        elif not at:
            named = self._named(word)
            of_one = [path for path in named if path == ("workflow", "query") and rest and _ID.fullmatch(rest[0])]
            yield from ((path, rest) for path in of_one or named)

    def _names(self, at: _Path, word: str) -> list[str]:
        """Returns the commands of the group *at* that *word* names."""
        names = self.here(at)
        return [each for each in names if each == word] or [each for each in names if word in _VERBS.get(each, ())]

    def _named(self, word: str) -> list[_Path]:
        """Returns the commands that *word* names, each once."""
        exact = [path for path in self._all if path[-1] == word]
        found = exact or [path for path in self._all if word in _VERBS.get(path[-1], ())]
        return list({id(self._all[path]): path for path in reversed(found)}.values())[::-1]


def _walked(group: click.Group, at: _Path = ()) -> Iterator[tuple[_Path, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if not command.hidden:
            yield (*at, name), command
        if isinstance(command, click.Group):
            yield from _walked(command, (*at, name))


def _singular(word: str) -> str:
    return word[:-1] if word.endswith("s") else word


def _extra(root: click.Group, command: click.Command, at: _Path, said: str, args: Sequence[str]) -> str:
    """Returns the message about arguments that *command* does not take."""
    line, extra = _line(at), said[said.index("(") + 1 : -1]
    word = next((each for each in args if extra == each or extra.startswith(f"{each} ")), extra)
    takes = [each for each in command.params if isinstance(each, click.Argument)]
    if takes:
        names = " ".join(each.make_metavar(click.Context(command)).strip("[]") for each in takes)
        once = " Run it once for each." if len(takes) == 1 else ""
        return f"`{line}` takes {'one ' if once else ''}{names}, so {word!r} is one too many.{once}"
    others = [each for each in _after(args, at[:-1], at[-1]) if each != word]
    commands, every = _Commands(root), dict(_walked(root))
    meant_with = ([*_with_a_place_for(every, command, at, word, rest)] for rest in (others, ()))
    work = next((found for lines in meant_with if (found := [each for each in lines if commands.takes(*each)])), [])
    lines = list(dict.fromkeys(_line(*each) for each in work if each[0] == work[0][0]))
    return f"`{line}` does not take an argument such as {word!r}.{_asking(lines)}"


def _with_a_place_for(
    every: dict[_Path, click.Command], command: click.Command, at: _Path, word: str, others: Sequence[str]
) -> Iterator[_Line]:
    """Yields what *word* could have meant for *command*, the most probable first; maybe also lines that do not work."""
    group = at[:-1]
    for noun in (_singular(word), _NOUNS.get(_singular(word), "")):  # `list pools`
        if (noun, at[-1]) in every:
            yield (noun, at[-1]), others
    for option in command.params:
        if isinstance(option.type, click.Choice) and word.lower() in map(str.lower, map(str, option.type.choices)):
            yield at, [max(option.opts, key=len), word, *others]
            return
    if group in ((), ("workflow",)) and _ID.fullmatch(word):
        yield from ((("workflow", each), [word, *others]) for each in (at[-1], "query") if ("workflow", each) in every)
    if group:
        yield from (((*group, each), [word, *others]) for each in _SHOWING if (*group, each) in every)
    yield from ((at, [option, word, *others]) for option in _NAMING)


def _moved(root: click.Group, command: click.Command, at: _Path, name: str, args: Sequence[str]) -> str | None:
    """Returns the message about an option of a command that was set before the command; None if it is unknown there too."""
    if not isinstance(command, click.Group):
        return None
    every = dict(_walked(root))
    words = list(args)
    start = next((index for index, word in enumerate(words) if word.split("=")[0] == name), len(words))
    for index in range(start + 1, len(words)):
        for length in (2, 1):
            path = (*at, *words[index : index + length])
            found = every.get(path)
            if found is None or isinstance(found, click.Group):
                continue
            if any(name in each.opts for each in found.params):
                rest = [*words[start:index], *words[index + length :]]
                return f"{name} belongs after the command: `{_line(path, [*words[len(at) : start], *rest])}`."
    return None
