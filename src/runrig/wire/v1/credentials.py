"""Credentials of our own door: everything but their values."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from runrig.wire.base import Request, example
from runrig.wire.v1.base import Page, Shown, Tagged

CredentialType = Literal["GENERIC", "REGISTRY", "DATA"]


class Credential(Tagged):
    """*keys*: the names of its values, which are never told.  *profile*: the registry, or the address of the data, if it has one.

    *lost*: the values were left out of a backup: it has to be set again.
    """

    model_config = example(
        {
            "name": "wandb",
            "type": "GENERIC",
            "keys": ["api_key"],
            "profile": "",
            "changed_at": "2026-01-31T12:00:00Z",
            "lost": False,
        }
    )

    name: str
    type: CredentialType
    keys: list[str]
    profile: str
    changed_at: datetime
    lost: bool


class CredentialPage(Page):
    """Credentials in order of name."""

    model_config = example({"items": [Credential.example()], "next_cursor": None})

    items: list[Credential]


class CredentialRequest(Request):
    """*values*: by key.  REGISTRY, which pulls images on Kubernetes, has `auth`, and may have `registry` and `username`; DATA has
    `access_key_id`, `access_key` and `endpoint`, and may have `region`, `override_url` and `addressing_style`; GENERIC has any."""

    model_config = example({"type": "GENERIC", "values": {"api_key": "(the key)"}})

    type: CredentialType = "GENERIC"
    values: dict[str, str] = Field(repr=False)


class Resealed(Shown):
    """*count*: how many credentials are sealed by the newest key now.  *unread*: those that no key of the file opens."""

    model_config = example({"count": 12, "unread": 0})

    count: int
    unread: int
