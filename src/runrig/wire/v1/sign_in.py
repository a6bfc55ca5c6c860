"""Sign-in with the identity provider: the client's requests."""

from typing import Annotated

from pydantic import Field

from runrig.wire.base import Request, example

Word = Annotated[str, Field(min_length=1, max_length=8192)]


class SignInByCode(Request):
    """*redirect_uri*: the one sent with the browser, on loopback or on this server. *code_verifier*: of PKCE."""

    model_config = example(
        {
            "code": "the-code-that-the-provider-sent-the-browser-back-with",
            "code_verifier": "a-word-of-43-characters-that-only-we-two-know",
            "redirect_uri": "http://127.0.0.1:40123/",
            "nonce": "a-word-that-the-ID-token-repeats",
        }
    )

    code: Word
    code_verifier: Annotated[str, Field(min_length=43, max_length=128)]
    redirect_uri: Annotated[str, Field(min_length=1, max_length=2000)]
    nonce: Annotated[str, Field(min_length=16, max_length=200)]


class SignInByDevice(Request):
    model_config = example({"device_code": "the-device-code-of-the-start"})

    device_code: Word


class SignInRenewal(Request):
    model_config = example({"refresh_token": "the-refresh-token-of-the-sign-in-or-of-the-last-renewal"})

    refresh_token: Word
