"""Tests every interface with a pool setting that does not exist; `test_imaginary_setting.py` runs it on a copy of the
code that has it.
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from docs.generate import setting_rows
from fastapi.testclient import TestClient

from runrig.api.app import create_app
from tests.api.client import AUTHORIZED, TOKEN, URL, Api
from tests.web.visitor import Site, site
from tests.worlds.command_line import Done, runrig
from tests.worlds.http import listening

CLUSTER = "pools:\n- {name: a, quota: 4, motto: share}\n"
EDIT = {"configs_dict": {"motto": "wait"}, "description": "a test"}


def asked(there: Site, port: int) -> dict[str, object]:
    def run(*args: str) -> Done:
        done = runrig(*args, env={"RUNRIG_SERVER": f"http://127.0.0.1:{port}", "RUNRIG_TOKEN": TOKEN})
        assert done.code == 0, (args, done)
        return done

    def lines(*args: str) -> list[str]:
        return [" ".join(line.split()) for line in run(*args).out.splitlines() if "otto" in line]

    api = Api(there.desk, TestClient(there.app, base_url=URL, headers=AUTHORIZED))
    found: dict[str, object] = {"cluster file": api.get("/api/v1/pools/a")["motto"], "export": lines("export")}
    api.call("PATCH", "/api/v1/pools/a", {"motto": "ask"})
    found["API"] = api.get("/api/v1/pools/a")["motto"]
    api.call("PATCH", "/api/configs/pool/a", EDIT)
    found["OSMO door"] = api.get("/api/configs/pool", verbose=True)["pools"]["a"]["motto"]
    found["option and change list"] = lines("pool", "update", "a", "--motto", "care")
    found["show"] = lines("pool", "show", "a")
    found["history"] = lines("pool", "history", "a")
    visitor = there.visitor()
    shown = visitor.fill("/pool/a/edit", motto="rest")
    assert visitor.confirm("/pool/a/edit", shown.text).status_code == 303
    found["form"] = api.get("/api/v1/pools/a")["motto"]
    found["docs"] = [row for row in "\n".join(setting_rows()).splitlines() if "motto" in row]
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
            found["stored"] = again.desk.service.queries.pool("a").pool.motto  # type: ignore[attr-defined]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
