"""Every setting of a pool with a value that it cannot have, through every interface: one clear message, nothing stored."""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from runrig.api.app import create_app
from runrig.domain.settings import SETTINGS, Choice, Codes, Duration, Image, Keys, Number, Setting, Text
from tests.api.client import AUTHORIZED, TOKEN, URL, Api
from tests.web.visitor import Site, site, words_of
from tests.worlds.command_line import runrig
from tests.worlds.http import listening

WORDS = {
    Text: "<b>",
    Number: "many",
    Choice: "LIFO",
    Duration: "soon",
    Image: "two images",
    Keys: "rack",
    Codes: "RESCHEDULE",
}
"""Kind → text that it refuses. Any other names something that does not exist."""


def _text(setting: Setting) -> str:
    return WORDS.get(type(setting.kind), "nowhere")


def _value(setting: Setting) -> Any:
    """A value of the wrong type."""
    return 7 if isinstance(setting.kind, Codes) else {"wrong": 1}


def _through_json(there: Site, setting: Setting) -> dict[str, tuple[int, str]]:
    """Interface → (status, message)."""
    api = Api(there.desk, TestClient(there.app, base_url=URL, headers=AUTHORIZED, raise_server_exceptions=False))
    wrong = _value(setting)
    file = json.dumps({"pools": [{"name": "pool1", "quota": 2, setting.asked: wrong}]})
    osmo = {"configs_dict": {setting.reference or setting.name: wrong}, "description": "a test"}
    found = {
        "cluster file": api.error("POST", "/api/v1/apply", {"file": file}),
        "API": api.error("PATCH", "/api/v1/pools/pool1", {setting.asked: wrong}),
        "OSMO": api.error("PATCH", "/api/configs/pool/pool1", osmo),
    }
    return {door: (status, str(answer["message"])) for door, (status, answer) in found.items()}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda each: each.name)
def test_a_value_of_the_wrong_type_is_refused_by_every_interface(tmp_path: Path, setting: Setting) -> None:
    with site(tmp_path) as there:
        before = there.desk.revision
        for door, (status, message) in _through_json(there, setting).items():
            assert status == 422, (door, message)
            named = {setting.asked, setting.name, setting.reference} - {""}
            assert any(name in message for name in named), (door, message)
        shown = there.visitor().fill("/pool/pool1/edit", **{setting.asked: _text(setting)})
        assert 400 <= shown.status_code < 500
        assert _text(setting) in words_of(shown.text) or "<" in _text(setting), "the form has what was typed"
        assert there.desk.revision == before


def test_an_invalid_option_is_refused_in_one_line(tmp_path: Path) -> None:
    with (
        site(tmp_path) as there,
        listening(lambda port: create_app(there.desk.service, token=TOKEN, port=port, user="ann")) as port,
    ):
        before = there.desk.revision
        env = {"RUNRIG_SERVER": f"http://127.0.0.1:{port}", "RUNRIG_TOKEN": TOKEN}
        for setting in SETTINGS:
            name = setting.label.replace(" ", "-")
            option = "--" + (name.removesuffix("s") if setting.kind.repeats else name)
            done = runrig("pool", "update", "pool1", option, _text(setting), env=env)
            assert done.code not in (0, 1), (setting.name, done)
            assert _text(setting) in done.err or setting.label in done.err, done
            assert "No such option" not in done.err
            assert "Traceback" not in done.err
        assert there.desk.revision == before
