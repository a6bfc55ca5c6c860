"""Workflows: requests to submit and query them. The field names of the osmo API come first, then those of runrig."""

from typing import Any

from pydantic import Field

from runrig.wire.base import Answer, Request, example


class SubmitRequest(Request):
    """*file*: the text of a workflow file or template. *set_variables*: ``k=v`` for the template,
    *set_string_variables* as strings. *uploaded_templated_spec*: the template that the client rendered *file* from, if
    it did.
    """

    model_config = example(
        {
            "file": "workflow:\n  name: train\n  tasks:\n  - {name: main, image: ubuntu, command: [sleep, '5']}\n",
            "set_variables": [],
            "set_string_variables": [],
            "uploaded_templated_spec": None,
        }
    )

    file: str
    set_variables: list[str] = Field(default_factory=list)
    set_string_variables: list[str] = Field(default_factory=list)
    uploaded_templated_spec: str | None = None


class CancelAnswer(Answer):
    model_config = example({"name": "train-1"})

    name: str


class AppsAnswer(Answer):
    """Apps of the osmo API, which runrig does not have."""

    model_config = example({"apps": [], "more_entries": False})

    apps: list[dict[str, Any]]
    more_entries: bool


class TagsAnswer(Answer):
    model_config = example({"tags": ["paper", "sweep"]})

    tags: list[str]
