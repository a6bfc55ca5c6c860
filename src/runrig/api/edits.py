"""Converts the body of an edit into a command of the service."""

from runrig.domain.amounts import Amount
from runrig.domain.pools import SUBPOOL_DELIMITER
from runrig.domain.settings import PARTS
from runrig.service.commands.edits import CohortEdit, PoolEdit
from runrig.spec.quota import Kinds, read_amounts, share_from_json
from runrig.spec.settings import settings_from_json
from runrig.wire import v1


def pool_edit(name: str, body: v1.PoolEdit, kinds: Kinds) -> PoolEdit:
    """Returns the fields in the body. null removes a cohort or a limit, and is ignored elsewhere. Raises InvalidInput."""
    subpool = SUBPOOL_DELIMITER in name
    return PoolEdit(
        _amounts(body, kinds, quota=not subpool),
        share_from_json(body.quota, kinds) if subpool and body.quota is not None else None,
        settings_from_json(body.model_dump(exclude_unset=True), kinds),
    )


def cohort_edit(body: v1.CohortEdit, kinds: Kinds) -> CohortEdit:
    """Returns the fields in the body. null removes a parent or a limit, and is ignored elsewhere. Raises InvalidInput."""
    settings = body.model_dump(include={"parent", "weight"}, exclude_unset=True)
    if body.weight is None:
        settings.pop("weight", None)
    return CohortEdit(_amounts(body, kinds), settings)


def _amounts(body: v1.PoolEdit | v1.CohortEdit, kinds: Kinds, *, quota: bool = True) -> tuple[Amount, ...]:
    said = {part: getattr(body, name) for part, name in PARTS.items() if name in body.model_fields_set}
    if not quota or body.quota is None:
        said.pop("nominal", None)
    return tuple(amount for part, value in said.items() for amount in read_amounts(value, part, kinds))
