"""Field `oidc` in the file of `runrig serve`: the identity provider, and the runrig roles of its groups."""

from urllib.parse import urlsplit

from runrig.domain.access import Grant, role_named
from runrig.domain.errors import InvalidInput
from runrig.spec.fields import Field
from runrig.spec.serve_settings import OidcSpec, is_loopback

USUAL_CLAIM = "groups"
MOST_GROUPS = 1000
_LONGEST = 1000
_EXAMPLE = "https://login.example.org/realms/people"


def read_oidc(field: Field) -> OidcSpec | None:
    """Returns None if it is missing or invalid."""
    fields = field.fields("oidc", ("issuer", "client_id", "groups_claim", "role_map"))
    issuer = _issuer(fields.need("issuer", f"issuer: {_EXAMPLE}"))
    client_id = _plain(fields.need("client_id", "client_id: runrig"))
    claim = _plain(fields["groups_claim"]) or USUAL_CLAIM
    groups = _groups(fields["role_map"])
    if issuer is None or client_id is None:
        return None
    return OidcSpec(issuer, client_id, claim, groups)


def _plain(field: Field) -> str | None:
    text = field.text()
    if text is not None and (not text.isprintable() or not 0 < len(text) <= _LONGEST):
        field.wrong(f"{text!r:.80} must be 1 to {_LONGEST} printable characters")
        return None
    return text


def _issuer(field: Field) -> str | None:
    text = _plain(field)
    if text is None:
        return None
    problem = _issuer_problem(text)
    if problem is not None:
        field.wrong(f"{text!r:.200} {problem}. Write it as the provider does, such as {_EXAMPLE}")
        return None
    return text


def _issuer_problem(text: str) -> str | None:
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return "is not a URL"
    if not host or not text.isascii() or " " in text or "@" in parts.netloc or parts.query or parts.fragment:
        return "must have no user, query or fragment"
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)):
        return None
    return "does not use https, so it is not protected on the network"


def _groups(field: Field) -> dict[str, tuple[Grant, ...]]:
    entries = field.entries()
    if len(entries) > MOST_GROUPS:
        field.wrong(f"too many groups ({len(entries)}, maximum {MOST_GROUPS})")
        return {}
    return {group: _roles(found) for group, found in entries}


def _roles(field: Field) -> tuple[Grant, ...]:
    """A role, or a list of roles."""
    items = field.items() if isinstance(field.node.value, tuple) else (field,)
    found = [_role(item) for item in items]
    return tuple(dict.fromkeys(each for each in found if each is not None))


def _role(field: Field) -> Grant | None:
    text = field.text()
    try:
        return None if text is None else role_named(text)
    except InvalidInput as error:
        field.wrong(error.problems[0].message)
        return None
