"""Converts the body of an edit into a command of the service."""

from runrig import wire
from runrig.domain.keep import KEEP
from runrig.service.commands.edits import CohortEdit, PoolEdit
from runrig.spec.quota import Kinds
from runrig.spec.settings import settings_from_json


def pool_edit(body: wire.PoolEditRequest, kinds: Kinds) -> PoolEdit:
    """Returns the fields in the body. null removes a cohort or a limit, and is ignored elsewhere. Raises InvalidInput."""
    sent = body.model_dump(exclude_unset=True)
    return PoolEdit(
        quota=KEEP if body.quota is None else body.quota,
        borrowing_limit=sent.get("borrowing_limit", KEEP),
        lending_limit=sent.get("lending_limit", KEEP),
        settings=settings_from_json(sent, kinds),
    )


def cohort_edit(body: wire.CohortEditRequest) -> CohortEdit:
    """Returns the fields in the body. null removes a parent or a limit, and is ignored elsewhere. Raises InvalidInput."""
    sent = body.model_fields_set
    return CohortEdit(
        quota=KEEP if body.quota is None else body.quota,
        parent=body.parent if "parent" in sent else KEEP,
        borrowing_limit=body.borrowing_limit if "borrowing_limit" in sent else KEEP,
        lending_limit=body.lending_limit if "lending_limit" in sent else KEEP,
        weight=KEEP if body.weight is None else body.weight,
    )
