"""The identity provider's metadata (OpenID Connect Discovery 1.0), and whether it can be trusted.

The document decides where the server sends codes and refresh tokens. So its URLs must use https and host names. Only a
provider on loopback can use http and its own address.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from runrig.domain.errors import Unavailable
from runrig.spec.serve_settings import OidcSpec, is_loopback

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Algorithms with a public key: with a shared key, anyone who can check a token could create one."""
_WANTED_SCOPES = ("openid", "profile", "email", "groups", "offline_access")
_DEVICE = "device_authorization_endpoint"


class ProviderUnusable(Unavailable):
    """The provider responds, but not as required. Retrying does not help; changing its settings does."""

    def __init__(self, message: str) -> None:
        super().__init__(message, {"retry_after_s": 60})


@dataclass(frozen=True, slots=True)
class Metadata:
    """*device_endpoint* None: no device sign-in. *scopes*: to request. *algorithms*: of ID tokens."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    device_endpoint: str | None
    scopes: str
    algorithms: tuple[str, ...]


def discovery_url(issuer: str) -> str:
    return issuer.rstrip("/") + "/.well-known/openid-configuration"


def read_metadata(plain: Mapping[str, Any], spec: OidcSpec) -> Metadata:
    """Returns what *plain*, a discovery document, says. Raises ProviderUnusable if sign-ins would not be safe."""
    if plain.get("issuer") != spec.issuer:
        raise _unusable(
            spec, f"its issuer is {_shown(plain.get('issuer'))}. If that is correct, set issuer: to exactly this value"
        )
    asked = _texts(plain.get("scopes_supported"))
    methods = plain.get("code_challenge_methods_supported")
    if methods is not None and "S256" not in _texts(methods):
        raise _unusable(spec, f"it does not support PKCE with S256, only {_shown(methods)}")
    signs = _texts(plain.get("id_token_signing_alg_values_supported")) or ("RS256",)
    algorithms = tuple(each for each in ALGORITHMS if each in signs)
    if not algorithms:
        raise _unusable(
            spec, f"it signs ID tokens with {_shown(', '.join(signs))}; an algorithm with a public key is required"
        )
    return Metadata(
        _endpoint(plain, "authorization_endpoint", spec),
        _endpoint(plain, "token_endpoint", spec),
        _endpoint(plain, "jwks_uri", spec),
        None if plain.get(_DEVICE) is None else _endpoint(plain, _DEVICE, spec),
        " ".join(each for each in _WANTED_SCOPES if each in asked or each == "openid"),
        algorithms,
    )


def _endpoint(plain: Mapping[str, Any], name: str, spec: OidcSpec) -> str:
    url = plain.get(name)
    problem = url_problem(url, spec.issuer) if isinstance(url, str) else "is not text"
    if problem is not None:
        raise _unusable(spec, f"its {name} {_shown(url)} {problem}")
    assert isinstance(url, str), "anything else is a problem"
    return url


def url_problem(url: str, issuer: str) -> str | None:
    """Returns why secrets must not be sent to *url*; None if they can be. *issuer*: of the document with the URL."""
    try:
        parts, own = urlsplit(url), urlsplit(issuer)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return "is not a URL"
    if not host or "@" in parts.netloc or parts.fragment or not url.isascii() or not url.isprintable() or " " in url:
        return "is not a plain URL"
    if parts.scheme == "http":
        if own.scheme == "http" and is_loopback(host):
            return None
        return "does not use https"
    if parts.scheme != "https":
        return "does not use https"
    if (_is_number(host) or host == "localhost") and host != own.hostname:
        return "has an IP address other than the issuer's"
    return None


def _is_number(host: str) -> bool:
    """Recognises all forms that a resolver accepts, such as 0x7f.1 or 2130706433."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        last = host.rstrip(".").rpartition(".")[2]
        return last.isdigit() or last.startswith("0x")
    return True


def _texts(value: object) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def _shown(value: object) -> str:
    return f"{value!r:.200}"


def _unusable(spec: OidcSpec, why: str) -> ProviderUnusable:
    return ProviderUnusable(f"the identity provider at {spec.issuer} cannot be used: {why}")
