"""What the body of an edit says, as a command of the service."""

from typing import Any

from runrig import wire
from runrig.domain.errors import InvalidInput
from runrig.domain.keep import KEEP, Keep
from runrig.domain.pools import Queueing
from runrig.service.commands.edits import CohortEdit, PoolEdit
from runrig.spec.values import parse_duration


def pool_edit(body: wire.PoolEditRequest) -> PoolEdit:
    """The fields that the body mentions; null removes a cohort or a limit, and means nothing elsewhere."""
    sent = body.model_fields_set
    keys, flavors = body.topology_keys, body.flavors
    return PoolEdit(
        quota=_or_keep(body.quota),
        cohort=body.cohort if "cohort" in sent else KEEP,
        borrowing_limit=body.borrowing_limit if "borrowing_limit" in sent else KEEP,
        lending_limit=body.lending_limit if "lending_limit" in sent else KEEP,
        topology_keys=KEEP if keys is None else tuple(keys),
        flavors=KEEP if flavors is None else tuple(flavors),
        queueing=KEEP if body.queueing is None else _queueing(body.queueing),
        weight=_or_keep(body.weight),
        description=_or_keep(body.description),
        default_run_time_s=_duration(body, "default_run_time"),
        max_run_time_s=_duration(body, "max_run_time"),
    )


def _or_keep(value: Any) -> Any:
    return KEEP if value is None else value


def _duration(body: wire.PoolEditRequest, field: str) -> float | Keep | None:
    """Seconds; None takes the limit away.  Raises InvalidInput."""
    if field not in body.model_fields_set:
        return KEEP
    text = getattr(body, field)
    try:
        return None if text is None else parse_duration(text)
    except ValueError as error:
        raise InvalidInput.one(f"{field}: {error}", field) from None


def _queueing(text: str) -> Queueing | Keep:
    try:
        return Queueing(text)
    except ValueError:
        known = " or ".join(each.value for each in Queueing)
        raise InvalidInput.one(f"unknown queueing {text!r}. Use {known}", "queueing") from None


def cohort_edit(body: wire.CohortEditRequest) -> CohortEdit:
    """The fields that the body mentions; null removes a parent or a limit, and means nothing elsewhere."""
    sent = body.model_fields_set
    return CohortEdit(
        quota=KEEP if body.quota is None else body.quota,
        parent=body.parent if "parent" in sent else KEEP,
        borrowing_limit=body.borrowing_limit if "borrowing_limit" in sent else KEEP,
        lending_limit=body.lending_limit if "lending_limit" in sent else KEEP,
        weight=KEEP if body.weight is None else body.weight,
    )
