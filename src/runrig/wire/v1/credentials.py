"""Requests to set credentials."""

from typing import Literal

from pydantic import Field

from runrig.wire.base import Request, example

CredentialType = Literal["GENERIC", "REGISTRY", "DATA"]


class CredentialRequest(Request):
    """*values*: by key. REGISTRY, for pulling images on Kubernetes, requires `auth` and can have `registry` and
    `username`. DATA requires `access_key_id`, `access_key` and `endpoint`, and can have `region`, `override_url` and
    `addressing_style`. GENERIC can have any.
    """

    model_config = example({"type": "GENERIC", "values": {"api_key": "(the key)"}})

    type: CredentialType = "GENERIC"
    values: dict[str, str] = Field(repr=False)
