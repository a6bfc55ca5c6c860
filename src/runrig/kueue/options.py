"""Options of a simulation that Kueue manifests do not contain: the number of cycles and settings of the manager."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from runrig.domain.errors import InvalidInput
from runrig.domain.kueue import FAIR, STRATEGIES, Settings, Strategy
from runrig.kueue.declared import GATES
from runrig.spec.fields import closest

_FLAGS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Options:
    """*cycles* 0: run until nothing changes. *settings* apply only to Kueue manifests."""

    cycles: int = 1
    settings: Settings = field(default_factory=Settings)


def parse_strategies(text: str) -> tuple[Strategy, ...]:
    """Parses ``NAME`` or ``NAME,NAME``; "" means both strategies. Raises InvalidInput with the known names."""
    names = [name.strip() for name in text.split(",")] if text.strip() else []
    found = []
    for name in names:
        if name not in STRATEGIES:
            raise InvalidInput.one(
                f"--fair-sharing: unknown strategy {name!r} (strategies: {', '.join(STRATEGIES)})", "fair-sharing"
            )
        found.append(STRATEGIES[name])
    if len(found) > 1 and tuple(found) != FAIR:
        both = ",".join(strategy.value for strategy in FAIR)
        raise InvalidInput.one(f"--fair-sharing: use one strategy, or both as {both}", "fair-sharing")
    return tuple(found) or FAIR


def parse_gates(text: str) -> Mapping[str, bool]:
    """Parses ``NAME=true,NAME=false``; sorted by name. Raises InvalidInput with the known names."""
    gates: dict[str, bool] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (part.strip() for part in item.partition("="))
        if name not in GATES:
            hint = closest(name, GATES) if name else "Use NAME=true"
            raise InvalidInput.one(f"--feature-gates: unknown gate {name!r}. {hint}", "feature-gates")
        if value.lower() not in _FLAGS:
            raise InvalidInput.one(
                f"--feature-gates: invalid {item!r}. Use {name}=true or {name}=false", "feature-gates"
            )
        if name in gates:
            raise InvalidInput.one(f"--feature-gates: duplicate gate {name}", "feature-gates")
        gates[name] = _FLAGS[value.lower()]
    return dict(sorted(gates.items()))
