"""The field `oidc` in the file of `runrig serve`."""

# ruff: noqa: E501  a case and what it is told are easier to compare in one line

from pathlib import Path

import pytest

from runrig.domain.access import role_named
from runrig.domain.errors import InvalidInput
from runrig.spec.serve import read_serve
from runrig.spec.serve_settings import OidcSpec
from runrig.wiring import serve
from tests.provider.forger import forger

LEAST = "data: data\nbackend: simulated\n"
ISSUER = "issuer: https://login.example.org"


def read(oidc: str) -> OidcSpec | None:
    return read_serve(f"{LEAST}oidc: {oidc}\n", Path("/"), {}).oidc


def test_groups_give_a_role_or_several() -> None:
    text = f"""
  {ISSUER}
  client_id: runrig
  groups_claim: https://example.org/groups
  role_map:
    gpu-admins: admin
    Vision Team: [vision-user, viewer, vision-user]
    nothing: []
"""
    roles = {
        "gpu-admins": (role_named("admin"),),
        "Vision Team": (role_named("vision-user"), role_named("viewer")),
        "nothing": (),
    }
    assert read(text) == OidcSpec("https://login.example.org", "runrig", "https://example.org/groups", roles)


def test_minimum_is_an_issuer_and_a_client() -> None:
    assert read(f"{{{ISSUER}, client_id: runrig}}") == OidcSpec("https://login.example.org", "runrig", "groups", {})
    for loopback in ("http://127.0.0.1:5556/dex", "http://localhost:8080", "http://[::1]:80"):
        found = read(f"{{issuer: '{loopback}', client_id: runrig}}")
        assert found is not None
        assert found.issuer == loopback


ISSUER_HINT = "Write it as the provider does, such as https://login.example.org/realms/people"


@pytest.mark.parametrize(
    ("oidc", "problems"),
    [
        ("yes", ["oidc: expected a mapping with the fields of oidc, got text 'yes'"]),
        ("{}", ["oidc needs issuer. Add issuer: https://login.example.org/realms/people", "oidc needs client_id. Add client_id: runrig"]),
        ("{issuer: http://login.example.org, client_id: x}", [f"issuer: 'http://login.example.org' does not use https, so it is not protected on the network. {ISSUER_HINT}"]),
        ("{issuer: 'http://127.0.0.1.evil.org', client_id: x}", [f"issuer: 'http://127.0.0.1.evil.org' does not use https, so it is not protected on the network. {ISSUER_HINT}"]),
        ("{issuer: 'https://a@b.org', client_id: x}", [f"issuer: 'https://a@b.org' must have no user, query or fragment. {ISSUER_HINT}"]),
        ("{issuer: 'https://b.org?x=1', client_id: x}", [f"issuer: 'https://b.org?x=1' must have no user, query or fragment. {ISSUER_HINT}"]),
        ("{issuer: 'https://[b', client_id: x}", [f"issuer: 'https://[b' is not a URL. {ISSUER_HINT}"]),
        ("{issuer: 7, client_id: ''}", ["issuer: expected text, got 7. Put it in quotes.", "client_id: '' must be 1 to 1000 printable characters"]),
        (f"{{{ISSUER}, client_id: x, client_secret: y}}", ["oidc has no field 'client_secret'. Did you mean 'client_id'?"]),
        (f"{{{ISSUER}, client_id: x, role_map: {{a: boss}}}}", ["a: 'boss' is not a role: use admin, viewer, or POOL-admin, POOL-user, POOL-viewer such as vision-user"]),
        (f"{{{ISSUER}, client_id: x, role_map: {{a: [admin, team--a-user]}}}}", ["a[1]: 'team--a' is a subpool, but roles are granted on top-level pools and cover their subpools. Grant it on 'team'"]),
        (f"{{{ISSUER}, client_id: x, role_map: [a]}}", ["role_map: expected a mapping, got a list"]),
    ],
)  # fmt: skip
def test_all_problems_are_reported(oidc: str, problems: list[str]) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(oidc)
    assert [problem.message for problem in refused.value.problems] == problems
    assert {problem.line for problem in refused.value.problems} == {3}


def test_unsuitable_provider_is_a_problem_of_the_file_and_an_unreachable_one_is_not() -> None:
    with forger() as provider:
        spec = read_serve(f"{LEAST}oidc: {{issuer: '{provider.issuer}', client_id: runrig}}\n", Path("/"), {})
        assert serve.check(spec) is None
        provider.document["issuer"] += "/"
        with pytest.raises(InvalidInput, match=rf"cannot be used: its issuer is '{provider.issuer}/'"):
            serve.check(spec)
    doubt = serve.check(spec)
    assert doubt is not None
    assert doubt.startswith("the identity provider does not respond at http://127.0.0.1:")
    assert doubt.endswith(". Users cannot sign in until it does")
