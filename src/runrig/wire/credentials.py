"""Credentials in the format of the osmo client."""

from pydantic import Field

from runrig.wire.base import Answer, Request, example


class CredentialAnswer(Answer):
    """*profile*: the registry, or the address of the data; "-" if it has neither."""

    model_config = example({"cred_name": "wandb", "cred_type": "GENERIC", "profile": "-"})

    cred_name: str
    cred_type: str
    profile: str


class CredentialsAnswer(Answer):
    model_config = example({"credentials": [CredentialAnswer.example()]})

    credentials: list[CredentialAnswer]


class GenericCredential(Request):
    model_config = example({"credential": {"api_key": "(the key)"}})

    credential: dict[str, str] = Field(repr=False)


class CredentialSetRequest(Request):
    """Exactly one of the three."""

    model_config = example({"generic_credential": GenericCredential.example()})

    generic_credential: GenericCredential | None = Field(default=None, repr=False)
    registry_credential: dict[str, str] | None = Field(default=None, repr=False)
    data_credential: dict[str, str | None] | None = Field(default=None, repr=False)
