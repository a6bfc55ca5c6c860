"""Sent code."""

from dataclasses import dataclass

from runrig.domain.value import Shown, shown_as


@dataclass(frozen=True, slots=True)
class CodeReceived(Shown):
    """*id*: for `workflow.code` in a workflow file.  *missing*: the SHA-256 of contents still to be sent; empty: the code is stored."""

    id: str
    missing: tuple[str, ...]


shown_as(
    CodeReceived(
        "0d2f6e1b9a83c47550b1f8e26c9d7a3e4f518c02b6d9e7a1350c8f4b2e6d9a17",
        ("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",),
    )
)
