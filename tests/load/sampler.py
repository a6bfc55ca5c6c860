"""Where the time of a server goes: looks at all its threads a hundred times a second, and writes at its end what it saw.

``RUN`` is given to Python in the place of the server's own start.
"""

import atexit
import collections
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

RUN = "from tests.load import sampler; sampler.start(); import sys; from runrig.__main__ import main; sys.argv[0] = 'runrig'; main()"
EVERY_S = 0.01
IDLE = ("wait", "select", "poll", "accept", "acquire", "_worker", "join", "sleep", "recv", "_read")
LINES = 45


def start() -> None:
    if "--init-admin" in sys.argv:
        return
    seen: collections.Counter[str] = collections.Counter()
    inside: collections.Counter[str] = collections.Counter()
    threading.Thread(target=_sample, args=(seen, inside), daemon=True, name="sampler").start()
    atexit.register(_report, seen, inside)


def _sample(seen: "collections.Counter[str]", inside: "collections.Counter[str]") -> None:
    own = threading.get_ident()
    while True:
        time.sleep(EVERY_S)
        for ident, frame in sys._current_frames().items():
            if ident == own or frame.f_code.co_name in IDLE:
                continue
            stack = [_name(each) for each in _stack(frame)]
            if any("importlib" in name for name in stack):
                continue  # it is still starting
            seen[stack[0]] += 1
            inside.update({*stack, "*"})


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _name(frame: FrameType) -> str:
    code = frame.f_code
    path = code.co_filename.rpartition("site-packages/")[2].rpartition("src/")[2]
    return f"{path}:{code.co_name}"


def _report(seen: "collections.Counter[str]", inside: "collections.Counter[str]") -> None:
    total = max(1, inside.pop("*", 0))
    for title, counted in (("in it or below", inside), ("in itself", seen)):
        print(f"--- {title}, % of {total} samples that were busy", file=sys.stderr)
        for name, count in counted.most_common(LINES):
            print(f"{100 * count / total:6.1f}  {name}", file=sys.stderr)
