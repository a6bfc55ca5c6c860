"""Every setting of a pool with a value that it cannot have, through every interface: one clear message, nothing stored."""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from runrig.api.app import create_app
from runrig.domain.quantities import LARGEST
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


def _through_json(there: Site, asked: str, wrong: Any, osmo: dict[str, Any]) -> dict[str, tuple[int, str]]:
    """Interface → (status, message)."""
    api = Api(there.desk, TestClient(there.app, base_url=URL, headers=AUTHORIZED, raise_server_exceptions=False))
    file = json.dumps({"pools": [{"name": "pool1", "quota": 2} | {asked: wrong}]})
    found = {
        "cluster file": api.error("POST", "/api/v1/apply", {"file": file}),
        "API": api.error("PATCH", "/api/v1/pools/pool1", {asked: wrong}),
        "OSMO": api.error("PATCH", "/api/configs/pool/pool1", {"configs_dict": osmo, "description": "a test"}),
    }
    return {door: (status, str(answer["message"])) for door, (status, answer) in found.items()}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda each: each.name)
def test_a_value_of_the_wrong_type_is_refused_by_every_interface(tmp_path: Path, setting: Setting) -> None:
    with site(tmp_path) as there:
        before = there.desk.revision
        wrong = _value(setting)
        found = _through_json(there, setting.asked, wrong, {setting.reference or setting.name: wrong})
        for door, (status, message) in found.items():
            assert status == 422, (door, message)
            named = {setting.asked, setting.name, setting.reference} - {""}
            assert any(name in message for name in named), (door, message)
        shown = there.visitor().fill("/pool/pool1/edit", **{setting.asked: _text(setting)})
        assert 400 <= shown.status_code < 500
        assert _text(setting) in words_of(shown.text) or "<" in _text(setting), "the form has what was typed"
        assert there.desk.revision == before


NUMBERS = [(each, each.kind) for each in SETTINGS if isinstance(each.kind, Number) and each.kind.takes is int]


def test_a_number_that_is_too_large_is_refused_with_its_limit_by_every_interface(tmp_path: Path) -> None:
    with site(tmp_path) as there:
        before, huge, visitor = there.desk.revision, 10**30, there.visitor()
        rows: list[tuple[str, int, dict[str, Any]]] = [("quota", LARGEST, {"resources": {"gpu": {"guarantee": huge}}})]
        rows += [(each.asked, int(kind.most), {each.name: huge}) for each, kind in NUMBERS]
        for asked, most, osmo in rows:
            found = _through_json(there, asked, huge, osmo)
            typed = "nominal default/gpu" if asked == "quota" else asked
            shown = visitor.fill("/pool/pool1/edit", **{typed: str(huge)})
            for door, (status, message) in (found | {"page": (shown.status_code, words_of(shown.text))}).items():
                assert 400 <= status < 500, (door, message)
                assert str(most) in message.replace(",", ""), (door, message)
                assert "e+30" not in message, (door, message)
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
