"""`runrig doctor` and clocks that differ: the API server sends its time in whole seconds with each answer."""

import json
import re
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any

import httpx2
import pytest

from runrig.backends.kubernetes.cluster import Cluster, Timeouts
from runrig.backends.kubernetes.doctor import _clock
from runrig.domain.findings import Verdict
from tests.cli.canned_server import serving
from tests.worlds.command_line import runrig


def clock(ahead_s: float) -> tuple[Verdict, str, str]:
    """Verdict, message and command, if the clock of the API server is so far ahead of ours."""

    def answers(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json={}, headers={"Date": formatdate(time.time() + ahead_s, usegmt=True)})

    http = httpx2.Client(transport=httpx2.MockTransport(answers), base_url="http://test")
    (found,) = _clock(Cluster(http, "http://test", Timeouts()))
    assert found.check == "clock"
    return found.verdict, found.message, found.command


@pytest.mark.parametrize(("ahead_s", "way"), [(90, "ahead of"), (-90, "behind"), (12.5, "ahead of"), (-12.5, "behind")])
def test_clocks_that_are_more_than_ten_seconds_apart_are_a_problem(ahead_s: float, way: str) -> None:
    verdict, message, command = clock(ahead_s)
    told = re.fullmatch(
        rf"The clock of the API server is (\d+) s {way} this machine's; at most 10 s are allowed", message
    )
    assert told is not None, message
    assert abs(int(told[1]) - abs(ahead_s)) <= 2, message
    assert (verdict, command) == (Verdict.PROBLEM, "timedatectl set-ntp true")


@pytest.mark.parametrize("ahead_s", [0, 8.9, -8.9])
def test_clocks_that_are_closer_are_fine(ahead_s: float) -> None:
    """An answer may take a while, which is no difference."""
    message = "The clocks of the API server and this machine are less than 10 s apart"
    assert clock(ahead_s) == (Verdict.OK, message, "")


def test_another_program_and_a_refusal_are_reported(tmp_path: Path) -> None:
    """A kubeconfig can name any address, and something in between can refuse."""
    said: dict[str, list[tuple[int, Any]]] = {
        "is not a Kubernetes API server. Correct the server in the kubeconfig": [(200, {}), (200, [])],
        "returned invalid JSON": [(200, "[" * 100_000)],
        "refused the request (403 Unknown): by a proxy": [(403, {"message": "by a proxy"})],
    }
    with serving({"GET /version": [each for answers in said.values() for each in answers]}) as server:
        file = tmp_path / "kubeconfig"
        parts = {"cluster": {"server": server.url}, "context": {"cluster": "c", "user": "c"}, "user": {}}
        named = {f"{part}s": [{"name": "c", part: value}] for part, value in parts.items()}
        file.write_text(json.dumps({"current-context": "c", **named}))
        for words, answers in said.items():
            for _ in answers:
                done = runrig("doctor", "--kubeconfig", str(file))
                assert done.err.startswith("Error: ")
                assert words in done.err
