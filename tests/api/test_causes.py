"""A task that prints and then fails: its traceback is the first that anybody sees, wherever they look."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from html import unescape
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from runrig.api.app import create_app
from runrig.web.install import install
from tests.api.client import PORT, TOKEN, URL
from tests.api.document import document
from tests.api.test_logs import local
from tests.patience import until
from tests.web.visitor import Visitor
from tests.worlds.command_line import Done, lines, runrig, up, written
from tests.worlds.http import listening

PROGRAM = """
import sys, time
for step in range(3):
    print("step", step)
time.sleep(0.02)
print("a warning", file=sys.stderr)
time.sleep(0.02)
print("loading")
raise KeyError("state_dict")
"""
FAILS = f"""
workflow:
  name: train
  tasks:
  - name: main
    image: any
    command: [python3, /train.py]
    files:
    - {{path: /train.py, contents: {json.dumps(PROGRAM)}}}
"""
WROTE = [
    "step 0",
    "step 1",
    "step 2",
    "a warning",
    "loading",
    "Traceback (most recent call last):",
    '  File "',
    '    raise KeyError("state_dict")',
    "KeyError: 'state_dict'",
]


def same(found: Sequence[str]) -> bool:
    """As *WROTE*, but for the folder of the file."""
    return len(found) == len(WROTE) and all(line.startswith(start) for line, start in zip(found, WROTE, strict=True))


def test_the_traceback_is_on_the_first_screen_of_logs_why_query_and_the_page(tmp_path: Path) -> None:
    with local(tmp_path) as (service, http):
        with listening(lambda port: create_app(service, token=TOKEN, port=port, user="ann")) as port:

            def told(*args: str) -> Done:
                env = {"RUNRIG_SERVER": f"http://127.0.0.1:{port}", "RUNRIG_TOKEN": TOKEN}
                return runrig("workflow", *args, env=env, width=80)

            id = http.post("/api/v1/workflows", json={"file": FAILS, "pool": "default"}).json()["id"]
            followed = told("logs", "--follow", id)
            until(lambda: service.workflow_queries.status(id).value == "FAILED")
            logs, why, query = told("logs", id), told("why", id), told("query", id)
        assert same(lines(logs.out)), logs.out
        assert followed.out == logs.out
        assert logs.err == f"{id} FAILED: KeyError: 'state_dict' (main, exit code 1)\n"
        assert lines(why.out)[:3] == [
            f"{id}  FAILED",
            f"{id} is FAILED. Task main failed: KeyError: 'state_dict' (exit code 1). All",
            f"output: `runrig logs {id} --task main`.",
        ]
        for done in (why, query):
            assert same([line[2:] for line in done.out.partition("main wrote last:\n")[2].split("\n")[: len(WROTE)]])
            assert len(lines(done.out)) < 30
        assert "Cause        KeyError: 'state_dict' (main)" in lines(query.out)
        app = create_app(service, token=TOKEN, port=PORT, user="ann")
        install(app, service)
        visitor = Visitor(TestClient(app, base_url=URL, raise_server_exceptions=False, follow_redirects=False))
        assert visitor.sign_in(TOKEN).status_code == 303
        page = visitor.page(f"/workflow/{id}")
        card, output = page.partition('id="output-title"')[::2]
        assert 'failed: <code class="said">KeyError: &#39;state_dict&#39;</code></p>' in card
        shown = output.partition('id="output"')[2]
        assert "Traceback (most recent call last):" in shown.partition('id="error"')[2]
        assert same([unescape(line) for line in re.findall(r"<p[^>]*><time>[^<]*</time> ([^<]*)</p>", shown)])
        assert "It has ended." not in page


SECRET = "s3cr3t-canary"
LEAKS = """
import os, sys
print("key", os.environ["KEY"])
print(open(sys.argv[1]).read(), file=sys.stderr)
raise PermissionError(f"{os.environ['KEY']} may not enter")
"""
LEAKY = (
    FAILS.replace("name: train", "name: leaky")
    .replace(json.dumps(PROGRAM), json.dumps(LEAKS))
    .replace("[python3, /train.py]", "[python3, /train.py, /keys/key]")
    + "    credentials: {one: {KEY: key}, two: /keys}\n"
)


def test_secret_printed_by_a_task_appears_only_in_its_output(tmp_path: Path) -> None:
    with local(tmp_path) as (service, http):
        for name, value in (("one", SECRET), ("two", f"{SECRET}\nand more\n")):
            assert http.put(f"/api/v1/credentials/{name}", json={"values": {"key": value}}).status_code == 201
        id = http.post("/api/v1/workflows", json={"file": LEAKY, "pool": "default"}).json()["id"]
        until(lambda: service.workflow_queries.status(id).value == "FAILED")
        with listening(lambda port: create_app(service, token=TOKEN, port=port, user="ann")) as port:
            env = {"RUNRIG_SERVER": f"http://127.0.0.1:{port}", "RUNRIG_TOKEN": TOKEN}
            logs = runrig("workflow", "logs", id, env=env)
            told = {each: runrig("workflow", each, id, env=env).out for each in ("why", "query", "events")}
        app = create_app(service, token=TOKEN, port=PORT, user="ann")
        install(app, service)
        visitor = Visitor(TestClient(app, base_url=URL, raise_server_exceptions=False, follow_redirects=False))
        visitor.sign_in(TOKEN)
        told["page"] = visitor.page(f"/workflow/{id}").partition('id="output-title"')[0]
        told["api"] = http.get(f"/api/v1/workflows/{id}").text
        told["head"] = logs.err
    assert [name for name, text in told.items() if SECRET in text] == []
    assert [name for name, text in told.items() if "PermissionError: *** may not enter" in text] == [
        "why",
        "query",
        "page",
        "api",
        "head",
    ]
    assert logs.out.count(SECRET) == 3


def test_records_have_time_task_attempt_and_stream_of_each_line(tmp_path: Path) -> None:
    with local(tmp_path) as (service, http):
        id = http.post("/api/v1/workflows", json={"file": FAILS, "pool": "default"}).json()["id"]
        until(lambda: service.workflow_queries.status(id).value == "FAILED")
        path, query = f"/api/v1/workflows/{id}/logs", {"stream": "both", "format": "records"}
        answer = http.get(path, params=query)
        said = document()["paths"]["/api/v1/workflows/{id}/logs"]["get"]["responses"]["200"]["content"]
        assert answer.headers["content-type"].partition(";")[0] in {"application/x-ndjson"} & said.keys()
        records = [json.loads(line) for line in answer.text.splitlines()]
        assert same([each["text"] for each in records])
        assert [each["stream"] for each in records] == ["stdout"] * 3 + ["stderr", "stdout"] + ["stderr"] * 4
        assert {(each["task"], each["attempt"]) for each in records} == {("main", 0)}
        times = [each["time"] for each in records]
        assert times == sorted(times)
        assert http.get(path, params={**query, "since": times[-1]}).text.count("\n") < len(records)
        assert http.get(path, params={**query, "attempt": "all"}).text == answer.text


TALK = """
import os, sys, time
for number in range(3000):
    while not os.path.exists(f"{sys.argv[1]}/{number // 1000}"):
        time.sleep(0.01)
    os.write(1 + number % 2, b"line %d\\n" % number)
    time.sleep(0.0005)
"""
CHATTY = FAILS.replace("name: train", "name: chatty").replace(json.dumps(PROGRAM), json.dumps(TALK))


@pytest.mark.slow
def test_no_line_of_either_stream_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    """The first and the last third are written while one dies, the second while none is there."""
    data, file = tmp_path / "data", written(tmp_path, CHATTY.replace("/train.py]", f"/train.py, {tmp_path}]"))
    with up(data, "--gpus", "1") as first:
        assert first.runrig("workflow", "submit", file).code == 0
        (tmp_path / "0").touch()
        assert first.runrig("workflow", "wait", "chatty-1", "--for", "RUNNING").code == 0
        first.child.kill()
    (tmp_path / "1").touch()
    log = data / "tasks/chatty-1/main/0/stdout.log"
    until(lambda: "line 1998\n" in log.read_text())
    with up(data, "--gpus", "1") as second:
        assert second.said
        (tmp_path / "2").touch()
        until(lambda: "line 2200\n" in log.read_text())
        assert "line 2998\n" not in log.read_text()
        second.child.kill()
    with up(data, "--gpus", "1") as third:
        assert third.said
        assert third.runrig("workflow", "wait", "chatty-1").code == 0
        found = lines(third.runrig("workflow", "logs", "chatty-1").out)
    expected = [f"line {number}" for number in range(3000)]
    assert Counter(found) == Counter(expected)
    places = [abs(int(line.split()[1]) - at) for at, line in enumerate(found)]
    assert sum(place > 4 for place in places) < len(places) / 10
