"""Checks that a user has the credentials named in a workflow."""

from runrig.domain.credentials import CredentialUse
from runrig.domain.errors import NoCredential
from runrig.domain.workflows import Workflow, WorkflowSpec
from runrig.service.access.credentials import Credentials


def check_credentials(spec: WorkflowSpec, user: str, credentials: Credentials) -> None:
    """Raises NoCredential for the first credential that *user* does not have in the form that *spec* needs."""
    uses = _uses(spec)
    there = {each.name: each for each in credentials.of(user)} if uses else {}
    for use in uses:
        found, way = there.get(use.name), f"`runrig credential set {use.name}`"
        if found is None:
            said = f"unknown credential {use.name!r} of {user} (credentials: {', '.join(there) or 'none'}). Set it with {way}"
            raise NoCredential(said, {"credential": use.name})
        missing = [key for key in use.variables.values() if key not in found.keys]
        if missing:
            said = f"credential {use.name!r} of {user} has no key {missing[0]!r:.80} (keys: {', '.join(found.keys)})"
            raise NoCredential(said, {"credential": use.name})
        if not found.sealed:
            said = (
                f"the values of credential {use.name!r} of {user} were excluded from a backup. Set it again with {way}"
            )
            raise NoCredential(said, {"credential": use.name})


def check_repeated(old: Workflow, spec: WorkflowSpec, user: str) -> None:
    """Raises NoCredential if *user* repeats another user's workflow that has credentials. The tasks would get the
    credentials of *user* with the same names.
    """
    uses = _uses(spec)
    if uses and old.submitted_by != user:
        raise NoCredential(
            f"{old.id} uses credential {uses[0].name!r} of {old.submitted_by}, which {user} cannot use. Ask {old.submitted_by} to "
            "repeat it, or submit its file yourself",
            {"credential": uses[0].name},
        )


def _uses(spec: WorkflowSpec) -> list[CredentialUse]:
    return [use for group in spec.written for task in group.tasks for use in task.credentials]
