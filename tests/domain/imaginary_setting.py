"""Tests every interface with pool settings that do not exist; `test_imaginary_setting.py` runs it on a copy of the
code that has them.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from docs.generate import setting_rows
from fastapi.testclient import TestClient

from runrig.api.app import create_app
from tests.api.client import AUTHORIZED, TOKEN, URL, Api
from tests.web.visitor import Site, site
from tests.worlds.command_line import Done, runrig
from tests.worlds.http import listening

CLUSTER = "pools:\n- {name: a, quota: 4, motto: share, pets: 1, mood: BUSY, nap: 1m}\n"
NAMES = {"motto": "motto", "pets": "pets", "mood": "mood", "nap": "nap_s"}
"""In requests → in answers."""


def about(text: str) -> list[str]:
    """The lines of *text* about the settings, without indentation."""
    return [" ".join(line.split()) for line in text.splitlines() if any(name in line.lower() for name in NAMES)]


def of(pool: Mapping[str, Any]) -> list[object]:
    return [pool.get(name, pool.get(asked)) for asked, name in NAMES.items()]


def asked(there: Site, port: int) -> dict[str, object]:
    def run(*args: str) -> Done:
        done = runrig(*args, env={"RUNRIG_SERVER": f"http://127.0.0.1:{port}", "RUNRIG_TOKEN": TOKEN})
        assert done.code == 0, (args, done)
        return done

    def lines(*args: str) -> list[str]:
        return about(run(*args).out)

    api = Api(there.desk, TestClient(there.app, base_url=URL, headers=AUTHORIZED))
    found: dict[str, object] = {"cluster file": of(api.get("/api/v1/pools/a")), "export": lines("export")}
    api.call("PATCH", "/api/v1/pools/a", {"motto": "ask", "pets": 2, "mood": "CALM", "nap": "2m"})
    found["API"] = of(api.get("/api/v1/pools/a"))
    edit = {"motto": "wait", "pets": 3, "mood": "BUSY", "nap": "3m"}
    api.call("PATCH", "/api/configs/pool/a", {"configs_dict": edit, "description": "a test"})
    found["OSMO door"] = of(api.get("/api/configs/pool", verbose=True)["pools"]["a"])
    options = ("--motto", "care", "--pets", "4", "--mood", "CALM", "--nap", "4m")
    found["options and change list"] = lines("pool", "update", "a", *options)
    wrong = api.http.patch("/api/v1/pools/a", json={"pets": 10, "mood": "SAD", "nap": "soon"})
    found["refused"] = wrong.status_code, about(wrong.json()["detail"].replace("; ", "\n"))
    found["show"] = lines("pool", "show", "a")
    found["history"] = lines("pool", "history", "a")
    visitor = there.visitor()
    shown = visitor.fill("/pool/a/edit", motto="rest", pets="5", mood="BUSY", nap="5m")
    assert visitor.confirm("/pool/a/edit", shown.text).status_code == 303
    found["form"] = of(api.get("/api/v1/pools/a"))
    found["docs"] = about("\n".join(setting_rows()))
    return found


def main() -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        with (
            site(folder, cluster=CLUSTER, judged=False) as there,
            listening(lambda port: create_app(there.desk.service, token=TOKEN, port=port, user="ann")) as port,
        ):
            found = asked(there, port)
        with site(folder, cluster=None, judged=False) as again:
            pool = again.desk.service.queries.pool("a").pool
            found["stored"] = [getattr(pool, name) for name in NAMES.values()]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
