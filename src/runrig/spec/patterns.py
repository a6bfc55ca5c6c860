"""Patterns in a cluster file: ``n{00..15}`` stands for sixteen names, ``r{n//4}`` for a label computed from the number.

Only n, whole numbers, +, -, //, % and brackets are evaluated, by walking the syntax tree: no code is executed. Each
function raises ValueError with a message.
"""

import ast
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

LONGEST_EXPRESSION = 100
MOST_OF_A_RANGE = 100_000

_RANGE = re.compile(r"\{([0-9]{1,9})\.\.([0-9]{1,9})\}")
_PART = re.compile(r"\{([^{}]*)\}")
_EXPRESSION = re.compile(r"[n0-9+\-/%() ]+")
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def expand_range(text: str) -> list[tuple[str, int | None]]:
    """Returns (name, n) for each name in *text*; n is None without a range.

    Numbers are zero-padded to the width of the first one.
    """
    match = _RANGE.search(text)
    if match is None:
        if "{" in text or "}" in text:
            raise ValueError(f"{text!r} has braces that are not a range. Use for example n{{00..15}}")
        return [(text, None)]
    before, after = text[: match.start()], text[match.end() :]
    if "{" in before + after or "}" in before + after:
        raise ValueError(f"{text!r} has more than one range. Use one range per entry.")
    first, last = int(match[1]), int(match[2])
    if last < first:
        raise ValueError(f"the range {match[0]} is reversed. Use {{{match[2]}..{match[1]}}}")
    if last - first >= MOST_OF_A_RANGE:
        raise ValueError(
            f"the range {match[0]} has too many numbers ({last - first + 1:,}, maximum {MOST_OF_A_RANGE:,})"
        )
    width = len(match[1])
    return [(f"{before}{n:0{width}d}{after}", n) for n in range(first, last + 1)]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A text with expressions in braces."""

    parts: tuple[str | ast.expr, ...]

    @property
    def needs_n(self) -> bool:
        return any(
            isinstance(node, ast.Name) for part in self.parts if not isinstance(part, str) for node in ast.walk(part)
        )

    def at(self, n: int) -> str:
        """Returns the text for *n*. Raises ValueError for a division by zero."""
        return "".join(part if isinstance(part, str) else str(_value(part, n)) for part in self.parts)


def parse_pattern(text: str) -> Pattern:
    parts: list[str | ast.expr] = []
    end = 0
    for match in _PART.finditer(text):
        parts += [text[end : match.start()], _expression(match[1])]
        end = match.end()
    parts.append(text[end:])
    if any("{" in part or "}" in part for part in parts if isinstance(part, str)):
        raise ValueError(f"{text!r} has an unmatched brace")
    return Pattern(tuple(parts))


def _expression(text: str) -> ast.expr:
    problem = f"{{{text}}} cannot be evaluated. Use only n, whole numbers, +, -, //, % and brackets."
    if len(text) > LONGEST_EXPRESSION or not _EXPRESSION.fullmatch(text):
        raise ValueError(problem)
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise ValueError(problem) from None
    if not all(isinstance(node, _ALLOWED) and getattr(node, "id", "n") == "n" for node in ast.walk(tree)):
        raise ValueError(problem)
    return tree


_ALLOWED = (ast.BinOp, ast.UnaryOp, ast.USub, ast.Constant, ast.Name, ast.Load, *_OPERATORS)


def _value(tree: ast.AST, n: int) -> int:
    match tree:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name():
            return n
        case ast.UnaryOp(operand=operand):
            return -_value(operand, n)
        case ast.BinOp(left=left, op=op, right=right):
            divisor = _value(right, n)
            if divisor == 0 and isinstance(op, ast.FloorDiv | ast.Mod):
                raise ValueError(f"{ast.unparse(tree)} divides by zero for n = {n}")
            return _OPERATORS[type(op)](_value(left, n), divisor)
    raise AssertionError(f"{ast.dump(tree)} was let through")
