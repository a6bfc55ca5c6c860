"""Which flavors the pods of a workload can use: taints, node selector, required node affinity; also label selectors.

Of selectors and affinities, only keys of the flavor's own labels count; the others are checked on nodes.
"""

from collections.abc import Mapping, Sequence

from runrig.domain.nodes import REPELLING_EFFECTS, Taint
from runrig.kueue.declared import NODE_NAME, LabelSelector, MatchExpression, NodeChoice, ResourceFlavor, Toleration


def mismatch(flavor: ResourceFlavor, choice: NodeChoice) -> str | None:
    """Why pods with this *choice* cannot use *flavor*; None if they can."""
    for taint in flavor.taints:
        if not tolerated(taint, (*choice.tolerations, *flavor.tolerations)):
            return f"taint {taint.key}={taint.value}:{taint.effect} is not tolerated"
    for key, value in choice.selector:
        if key in flavor.labels and flavor.labels[key] != value:
            return f"node selector {key}={value} against label {key}={flavor.labels[key]}"
    if choice.terms and not any(_term_holds(term, flavor.labels) for term in choice.terms):
        return "no term of the node affinity matches its labels"
    return None


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether *selector* matches *labels*; None matches nothing."""
    if selector is None:
        return False
    if not selector.labels and not selector.expressions:
        return True
    return all(labels.get(key) == value for key, value in selector.labels) and all(
        _holds(each, labels) for each in selector.expressions
    )


def tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    """Whether *taint* does not repel pods with these *tolerations*."""
    return taint.effect not in REPELLING_EFFECTS or any(
        each.effect in ("", taint.effect)
        and (each.key == taint.key or (not each.key and each.operator == "Exists"))
        and (each.operator == "Exists" or each.value == taint.value)
        for each in tolerations
    )


def holds_on_node(expression: MatchExpression, name: str, labels: Mapping[str, str]) -> bool:
    """Whether *expression* matches the node *name*; *labels* are all of its labels."""
    return _holds(expression, {NODE_NAME: name} if expression.key == NODE_NAME else labels)


def _term_holds(term: Sequence[MatchExpression], labels: Mapping[str, str]) -> bool:
    return all(_holds(each, labels) for each in term if each.key in labels)


def _holds(expression: MatchExpression, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression.key)
    match expression.operator:
        case "In":
            return value in expression.values
        case "NotIn":
            return value not in expression.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(expression, value)
    return False


def _compares(expression: MatchExpression, value: str | None) -> bool:
    try:
        number, bound = int(value or ""), int(expression.values[0])
    except (ValueError, IndexError):
        return False
    return number > bound if expression.operator == "Gt" else number < bound
