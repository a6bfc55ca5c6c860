"""Reads label selectors, match expressions, tolerations and taints, as in Kubernetes."""

import re

from runrig.domain.nodes import TAINT_EFFECTS, Taint
from runrig.kueue.declared import LabelSelector, MatchExpression, Toleration
from runrig.kueue.read.tree import Object, Value

_EXPRESSION = ("key", "operator", "values")
_OPERATORS = {name: name for name in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")}
_WITHOUT_VALUES = ("Exists", "DoesNotExist")
_LABEL_OPERATORS = tuple(_OPERATORS)[:4]
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_TOLERATION = ("key", "operator", "value", "effect", "tolerationSeconds")
_TOLERATES = {name: name for name in ("Equal", "Exists")}
_EFFECTS = {name: name for name in TAINT_EFFECTS}


def read_selector(fields: Object) -> LabelSelector | None:
    """Reads a selector; None, which selects nothing, if it is invalid (with a warning)."""
    fields.only(("matchLabels", "matchExpressions"))
    labels = tuple(sorted(fields.strings("matchLabels").items()))
    expressions = [read_expression(item, labels_only=True) for item in fields.items("matchExpressions")]
    if None in expressions:
        fields.at.warn("this selector has an invalid expression and selects nothing")
        return None
    return LabelSelector(labels, tuple(found for found in expressions if found))


def read_expression(at: Value, *, labels_only: bool = False) -> MatchExpression | None:
    """Reads an expression; None, with a warning, if it cannot be evaluated. *labels_only*: Gt and Lt are invalid."""
    fields = at.object().only(_EXPRESSION)
    key, values = fields.need("key"), fields.texts("values")
    operator = fields.get("operator")
    name = operator.choice(_OPERATORS, "", otherwise="cannot be evaluated") if operator else ""
    if operator is None:
        at.wrong("operator is missing")
    if not name:
        return None
    if labels_only and name not in _LABEL_OPERATORS:
        at.warn(f"{name} can only compare labels of nodes")
        return None
    if name in _WITHOUT_VALUES and values:
        at.warn(f"{name} takes no values: they are ignored")
        values = ()
    if name in ("In", "NotIn") and not values:
        at.warn(f"{name} needs values: Kueue rejects this")
    if name in ("Gt", "Lt") and not (len(values) == 1 and _NUMBER.fullmatch(values[0])):
        at.warn(f"{name} needs one whole number: cannot be evaluated")
        return None
    return MatchExpression(key, name, values)


def read_tolerations(values: tuple[Value, ...]) -> tuple[Toleration, ...]:
    """The valid tolerations; the others cause warnings."""
    return tuple(found for at in values if (found := _toleration(at)) is not None)


def _toleration(at: Value) -> Toleration | None:
    fields = at.object().only(_TOLERATION)
    key, value = fields.text("key"), fields.text("value")
    operator, effect = fields.get("operator"), fields.get("effect")
    name = operator.choice(_TOLERATES, "", otherwise="this toleration is ignored") if operator else "Equal"
    kind = effect.choice({"": "", **_EFFECTS}, "?", otherwise="this toleration is ignored") if effect else ""
    if name == "Equal" and not key:
        at.warn("a toleration without a key needs operator Exists: this one is ignored")
        return None
    if name == "Exists" and value:
        at.warn("Exists takes no value: it is ignored")
        value = ""
    return Toleration(key, name, value, kind) if name and kind != "?" else None


def read_taints(values: tuple[Value, ...]) -> tuple[Taint, ...]:
    """The valid taints; the others cause warnings."""
    return tuple(found for at in values if (found := _taint(at)) is not None)


def _taint(at: Value) -> Taint | None:
    fields = at.object().only(("key", "value", "effect", "timeAdded"))
    effect = fields.get("effect")
    key = fields.need("key")
    if effect is None:
        at.warn("a taint needs an effect: this one is ignored")
        return None
    kind = effect.choice(_EFFECTS, "", otherwise="this taint is ignored")
    return Taint(key, fields.text("value"), kind) if kind else None
