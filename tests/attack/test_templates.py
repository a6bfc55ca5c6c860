"""One user who sends many heavy templates: few are rendered at once, the rest waits or is refused, and others are served."""

import json
from contextlib import ExitStack
from pathlib import Path
from select import select
from threading import Event, Thread

from runrig.service.mirror.turns import AT_ONCE, OF_ONE_USER
from tests.attack.target import TREASURE, Target, serve
from tests.attack.wire import request, wire

HEAVY = "{% for i in range(10**9) %}{% endfor %}" + TREASURE
LIGHT = TREASURE.replace("treasure", "{{ name }}").replace("[{path: /tmp/key", "[{path: /tmp/{{ name }}")
MANY = 80


def children(target: Target) -> int:
    """The templates that are being rendered now."""
    found = Path(f"/proc/{target.process.pid}/task").glob("*/children")
    pids = [pid for file in found for pid in file.read_text().split()]
    return sum("template_child" in _command(pid) for pid in pids)


def _command(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def submission(target: Target, user: str, file: str, *variables: str) -> bytes:
    body = json.dumps({"file": file, "set_variables": list(variables)}).encode()
    headers = [*target.headers(user), ("Content-Type", "application/json")]
    return request("POST", "/api/pool/team/workflow", headers, body)


def test_80_slow_templates_of_one_user_do_not_delay_others(tmp_path: Path) -> None:
    with serve(tmp_path) as target, ExitStack() as stack:
        most, over = [0], Event()

        def look() -> None:
            while not over.wait(0.01):
                most[0] = max(most[0], children(target))

        watcher = Thread(target=look)
        watcher.start()
        heavy = [stack.enter_context(wire(target.port)) for _ in range(MANY)]
        for each in heavy:
            each.send(submission(target, "ann", HEAVY))
        for file, variables in ((TREASURE, ()), (LIGHT, ("name=light",))):
            other = stack.enter_context(wire(target.port))
            assert other.send(submission(target, "admin", file, *variables)).answer().status == 200
        over.set()
        watcher.join()
        answered = select([each.socket for each in heavy], [], [], 0)[0]
        answers = [each.answer() for each in heavy if each.socket in answered]
        assert len(answers) < MANY  # other requests were served while these were still waiting
        refused = [answer for answer in answers if answer.status == 503]
        assert len(refused) >= MANY - 3 * OF_ONE_USER
        assert {answer.headers["retry-after"] for answer in refused} == {"2"}
        assert (
            refused[0]
            .json["message"]
            .startswith(f"too many template renderings in progress by ann (limit {OF_ONE_USER})")
        )
        assert 0 < most[0] <= AT_ONCE
        assert "Traceback" not in target.log.read_text()
