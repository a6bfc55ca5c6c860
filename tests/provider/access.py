"""Access with a provider of identities, on a real store, with a clock that a test moves beside the real one."""

import base64
import hashlib
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from runrig.domain.access import Identity, role_named
from runrig.domain.shown.server import SignedIn
from runrig.service.access.access import Access
from runrig.service.access.oidc.sign_ins import SignIns
from runrig.spec.serve_settings import OidcSpec
from runrig.store import SqlStore
from tests.provider.running import Browser, returned
from tests.stores import with_tables

CLIENT = "runrig"
BACK = "http://127.0.0.1:45555/"
OWN = "https://runrig.example.org"
ELSEWHERE = "192.0.2.7"
ROLES = {"ml": ("team-user",), "heads": ("team-admin", "viewer"), "root": ("admin",)}
"""The roles of each group."""


def settings(issuer: str, roles: Mapping[str, tuple[str, ...]] = ROLES, claim: str = "groups") -> OidcSpec:
    return OidcSpec(issuer, CLIENT, claim, {group: tuple(map(role_named, names)) for group, names in roles.items()})


@dataclass
class Signing:
    access: Access
    spec: OidcSpec
    shift: list[float]
    """Seconds by which the server's clock is ahead of the real one."""

    @property
    def signs(self) -> SignIns:
        return self.access.sign_ins

    def ask(self, token: str) -> Identity:
        return self.access.authentication.authenticate(token, ELSEWHERE)

    def roles(self, token: str) -> list[str]:
        return [str(each) for each in self.ask(token).grants]

    def by(self, asked: "Asked", code: str, **other: str) -> SignedIn:
        """The exchange of *code*; *other*: what is not as it was asked."""
        sent = {"verifier": asked.verifier, "redirect_uri": BACK, "nonce": asked.nonce, "own": OWN, "source": ELSEWHERE}
        return self.signs.by_code(code, **{**sent, **other})

    def sign_in(self, browser: Browser) -> SignedIn:
        asked = Asked()
        return self.by(asked, asked.code(self, browser))

    def renewed(self, found: SignedIn) -> SignedIn:
        assert found.refresh_token is not None
        return self.signs.renewed(found.refresh_token, ELSEWHERE)


class Asked:
    """A request for a code, with the secrets of who asks."""

    def __init__(self, client: str = CLIENT) -> None:
        self.client = client
        self.verifier = secrets.token_urlsafe(48)
        self.nonce = secrets.token_urlsafe(16)
        self.state = secrets.token_urlsafe(16)

    def url(self, signing: Signing) -> str:
        metadata = signing.signs.metadata()
        digest = hashlib.sha256(self.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self.client,
            "redirect_uri": BACK,
            "scope": metadata.scopes,
            "state": self.state,
            "nonce": self.nonce,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        return f"{metadata.authorization_endpoint}?{urlencode(query)}"

    def code(self, signing: Signing, browser: Browser) -> str:
        """What the provider sends *browser* back with."""
        sent = returned(browser.open(self.url(signing), BACK))
        assert sent["state"] == self.state
        return sent["code"]


@contextmanager
def signing(folder: Path, spec: OidcSpec) -> Iterator[Signing]:
    store, shift = SqlStore.open(with_tables(folder / "data")), [0.0]
    access = Access(
        store.access, now=lambda: round(time.time() + shift[0], 6), pools=lambda: ("team", "team2"), oidc=spec
    )
    try:
        yield Signing(access, spec, shift)
    finally:
        store.close()
