"""Every error, warning and text with a number, as the code has it, in the singular and the plural (messages.txt).

``python -m tests.docs.test_messages`` writes the file again. Read each changed line aloud before you commit it.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from runrig.domain import errors
from runrig.domain.quantities import counted
from tests.docs.test_docs import CODE, ROOT, parsed

GOLDEN = Path(__file__).parent / "messages.txt"
ERRORS = {name for name, kind in vars(errors).items() if isinstance(kind, type)} | {"Problem", "Warned", "Unreadable"}
CALLS = ERRORS | {"one", "warn", "wrong", "note", "say", "show_any", "table", "BadParameter", "_fault"}
AMOUNTS = {"amount_in_words", "amount_of_flavor", "amount", "plain", "short", "_amount"}


NEVER_ONE = re.compile(
    r"maximum|too many|at most \{M|are named|you can submit to|split over|entries|items|characters|the file has|there are"
    r"|its \{elements\}|Secret can hold|once aliases|all-or-nothing|nodes and| notices: |fields for|tasks are \{|the new files"
)
"""Parts of texts whose number is always above one: it exceeds a maximum, or one would be no problem."""


class Text:
    """The words of one expression with *number* in place of each number; *numbers*: whether it has one."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.numbers = False

    def of(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.JoinedStr(values=parts):
                return "".join(self.of(part) for part in parts)
            case ast.FormattedValue(value=value, conversion=conversion, format_spec=spec):
                if spec is not None and ast.unparse(spec).strip("f'\"") == "," and not ast.unparse(value).isupper():
                    return self.count()
                return repr(self.of(value)) if conversion == ord("r") else self.of(value)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self.of(left) + self.of(right)
            case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mult(), right=right):
                return text if self.holds(right) else ""
            case ast.IfExp(test=test, body=body, orelse=other):
                return self.of(body if self.holds(test) else other)
            case ast.Call(func=function, args=args):
                return self.called(ast.unparse(function).rpartition(".")[2], args, node)
        return f"{{{ast.unparse(node).rpartition('.')[2].strip('()')}}}"

    def called(self, name: str, args: list[ast.expr], node: ast.expr) -> str:
        if name == "counted":
            self.numbers = True
            return counted(self.number, *map(self.of, args[1:]))
        if name in AMOUNTS:
            self.numbers = True
            return counted(self.number, "GPU")
        if name in ("len", "amount_in_a_sentence"):
            return self.count()
        if name in ("listed", "join"):
            return "{a}" if self.number == 1 else "{a and b}" if name == "listed" else "{a, b}"
        return f"{{{name.strip('_')}}}"

    def count(self) -> str:
        self.numbers = True
        return f"{self.number:,}"

    def holds(self, test: ast.expr) -> bool:
        """Whether a condition is true of the number; conditions of other kinds are."""
        match test:
            case ast.Compare(comparators=[ast.Constant(value=int(right))], ops=[operator]):
                self.numbers = True
                return {
                    ast.Eq: self.number == right,
                    ast.NotEq: self.number != right,
                    ast.Gt: self.number > right,
                    ast.GtE: self.number >= right,
                    ast.Lt: self.number < right,
                    ast.LtE: self.number <= right,
                }[type(operator)]
        return True


def texts(node: ast.AST, of_error: bool = False) -> Iterator[tuple[ast.expr, bool]]:
    """The outermost texts below *node*, each with whether an error or a warning is made of it."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    match node:
        case ast.JoinedStr():
            yield node, of_error
            return
        case ast.BinOp() if any(isinstance(each, ast.JoinedStr) for each in ast.walk(node)):
            yield node, of_error
            return
        case ast.Constant(value=str()) if of_error:
            yield node, True
            return
    if isinstance(node, ast.Call):
        of_error = ast.unparse(node.func).rpartition(".")[2] in CALLS
    elif not isinstance(node, ast.IfExp | ast.Starred | ast.keyword):
        of_error = False
    for child in ast.iter_child_nodes(node):
        yield from texts(child, of_error)


def rendered() -> str:
    lines: list[str] = []
    for file in CODE:
        if file.parts[-3:-1] == ("kueue", "read"):
            continue  # tests/kueue/read/test_every_warning.py
        found: dict[str, None] = {}
        for node, of_error in texts(parsed(file)):
            one, two = Text(1), Text(2)
            forms = list(dict.fromkeys((one.of(node), two.of(node))))
            if NEVER_ONE.search(forms[0]):
                forms = forms[-1:]
            if len(forms[0].split()) > 2 and forms[0][0] != "<" and (of_error or one.numbers or two.numbers):
                found["\n    ".join(" ".join(form.split()) for form in forms)] = None
        if found:
            lines += ["", str(file.relative_to(ROOT / "src" / "runrig")), *(f"  {text}" for text in found)]
    return "\n".join(lines[1:]) + "\n"


def test_every_error_warning_and_number_reads_well_in_the_singular_and_the_plural() -> None:
    assert rendered() == GOLDEN.read_text(encoding="utf-8")


if __name__ == "__main__":
    GOLDEN.write_text(rendered(), encoding="utf-8")
