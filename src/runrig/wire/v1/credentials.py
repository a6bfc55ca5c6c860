"""Credentials as they are set."""

from typing import Literal

from pydantic import Field

from runrig.wire.base import Request, example

CredentialType = Literal["GENERIC", "REGISTRY", "DATA"]


class CredentialRequest(Request):
    """*values*: by key.  REGISTRY, which pulls images on Kubernetes, has `auth`, and may have `registry` and `username`; DATA has
    `access_key_id`, `access_key` and `endpoint`, and may have `region`, `override_url` and `addressing_style`; GENERIC has any."""

    model_config = example({"type": "GENERIC", "values": {"api_key": "(the key)"}})

    type: CredentialType = "GENERIC"
    values: dict[str, str] = Field(repr=False)
