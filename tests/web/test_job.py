"""The page of a workflow: why it failed, its output, and how it spent its time."""

import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runrig.domain.gpu_use import GpuMinute, GpuUse
from runrig.domain.observed import Phase, TaskFact
from runrig.domain.workflows import TaskKey
from runrig.ports.backend import LogFile, Output
from runrig.service.queries.visibility import ALL
from runrig.web.pages import workflow as workflow_page
from tests.web.visitor import Elements, Site, site, words_of
from tests.worlds.service import T0, do, one_task
from tests.worlds.workflow_files import sweep

PROGRESS = ("epoch 1", "epoch 2")
FAILURE = ("Traceback (most recent call last):", '  File "train.py", line 3, in <module>', "KeyError: 'scale'")
TWO = """
workflow:
  name: pair
  tasks: [{name: main, count: 2, image: any, command: [x], duration: 100, resource: one}]
  resources: {one: {gpu: 1}}
"""
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>"


def writes(
    folder: Path, it: Site, key: TaskKey, out: tuple[str, ...], err: tuple[str, ...] = (), began: float = T0
) -> None:
    """One line a second: all of *out*, then all of *err*."""
    name = f"{key.workflow}-{key.task}-{key.retry_id}"
    notes, sizes = [], [0, 0]
    for at, (stream, line) in enumerate([*((0, each) for each in out), *((1, each) for each in err)]):
        sizes[stream] += len(line.encode()) + 1
        notes.append(f"{round((began + at) * 1e6)} {sizes[0]} {sizes[1]}\n")
    for suffix, text in (("out", out), ("err", err)):
        (folder / f"{name}.{suffix}").write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    (folder / f"{name}.order").write_text("".join(notes))
    stdout, stderr, order = (LogFile(str(folder), f"{name}.{suffix}") for suffix in ("out", "err", "order"))
    it.desk.backend.written = {**it.desk.backend.written, key: Output(stdout, stderr, order)}


def sees(it: Site, facts: Mapping[TaskKey, TaskFact]) -> None:
    it.desk.backend.facts = {**it.desk.backend.facts, **facts}
    it.desk.later(10)


def fails(
    folder: Path, it: Site, key: TaskKey, out: tuple[str, ...] = PROGRESS, err: tuple[str, ...] = FAILURE
) -> None:
    sees(it, {key: TaskFact(Phase.RUNNING)})
    writes(folder, it, key, out, err)
    sees(it, {key: TaskFact(Phase.ENDED, 1, by_itself=True)})


def lines_of(page: str) -> list[tuple[str, str]]:
    """(classes, text) of the lines of output."""
    found = re.search(r'<div class="output".*?>(<p.*?)?</div>', page, re.DOTALL)
    assert found is not None
    return [
        (re.sub(r'class="([^"]*)".*', r"\1", kinds.strip()), re.sub(r"<[^>]*>", "", text))
        for kinds, text in re.findall(r"<p(.*?)>(.*?)</p>", found[1] or "", re.DOTALL)
    ]


def test_failed_workflow_shows_the_last_output_of_its_program_first(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        it.desk.submit("a", text=one_task("a"))
        it.desk.service.settle()
        fails(tmp_path, it, TaskKey("a-1", "main", 0))
        page = it.visitor().page("/workflow/a-1")
        text = words_of(page)
        assert (
            "main on n0 failed: KeyError: 'scale' exit code 1 after 20s To the error runrig logs a-1 --task main"
            in text
        )
        assert text.index("KeyError: 'scale'") < text.index("Output")
        assert not {each for each in ("It has finished", "It has ended", "Why it waits") if each in text}


def test_a_program_that_was_killed_and_one_that_never_ran_show_how_they_ended(tmp_path: Path) -> None:
    """Their last output need not tell why."""
    with site(tmp_path) as it:
        for name in ("big", "none"):
            it.desk.submit(name, text=one_task(name))
        it.desk.service.settle()
        big, none = (TaskKey(f"{name}-1", "main", 0) for name in ("big", "none"))
        sees(it, {big: TaskFact(Phase.RUNNING)})
        writes(tmp_path, it, big, PROGRESS)
        sees(it, {big: TaskFact(Phase.ENDED, 137, "OOMKilled", by_itself=True)})
        sees(it, {none: TaskFact(Phase.ENDED, 3003, "no image <b>")})
        visitor = it.visitor()
        says = "main on n0 failed: exit code 137: out of memory its last output: epoch 2 ended after 20s To its last output"
        assert says in words_of(visitor.page("/workflow/big-1"))
        assert "none-1 is FAILED: no image <b>" in words_of(visitor.page("/workflow/none-1"))
        listed = words_of(visitor.page("/workflows"))
        assert "exit code 137: out of memory main, epoch 2" in listed
        assert "no image <b>" in listed


def test_a_time_limit_stands_before_the_last_output(tmp_path: Path) -> None:
    """The program did not fail: what it wrote last is no error."""
    text = one_task("a", duration=9000).replace("  tasks:", "  timeout: {exec_timeout: 10m}\n  tasks:")
    with site(tmp_path) as it:
        it.desk.submit("a", text=text)
        it.desk.service.settle()
        key = TaskKey("a-1", "main", 0)
        sees(it, {key: TaskFact(Phase.RUNNING)})
        writes(tmp_path, it, key, PROGRESS)
        it.desk.later(700)
        sees(it, {key: TaskFact(Phase.ENDED, 143)})
        page = it.visitor().page("/workflow/a-1")
        said = "Ran longer than its time limit of 10m (--time, or exec_timeout). last output: epoch 2 waited"
        assert said in words_of(page)
        assert lines_of(page) == [("", "08:00:00 epoch 1"), ("cause", "08:00:01 epoch 2")]
        why = it.desk.service.workflow_queries.why("a-1", ALL).sentence
        limit = "ran longer than its time limit of 10m (--time, or exec_timeout)"
        assert f"a-1 is FAILED_EXEC_TIMEOUT: {limit}. Task main, last output: epoch 2 (exit code 143" in why


def test_both_streams_are_in_chronological_order_and_the_error_has_a_link(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        it.desk.submit("a", text=one_task("a"))
        it.desk.service.settle()
        fails(tmp_path, it, TaskKey("a-1", "main", 0))
        page = it.visitor().page("/workflow/a-1")
        assert lines_of(page) == [
            ("", "08:00:00 epoch 1"),
            ("", "08:00:01 epoch 2"),
            ("cause err", "08:00:02 Traceback (most recent call last):"),
            ("cause err", "08:00:03   File &#34;train.py&#34;, line 3, in &lt;module&gt;"),
            ("said err", "08:00:04 KeyError: &#39;scale&#39;"),
        ]
        assert page.count('id="error"') == 1
        assert [each["href"] for each in Elements(page).named("a") if str(each.get("href")).endswith("#error")] == [
            "#error"
        ]


def test_first_failed_task_is_named_and_the_link_leads_to_its_output(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        it.desk.submit("pair", text=TWO)
        it.desk.service.settle()
        first, second = TaskKey("pair-1", "main-0", 0), TaskKey("pair-1", "main-1", 0)
        sees(it, {first: TaskFact(Phase.RUNNING), second: TaskFact(Phase.RUNNING)})
        writes(tmp_path, it, first, ("one", "NCCL: connection closed by peer"), began=T0 + 100)
        writes(tmp_path, it, second, PROGRESS, FAILURE)
        sees(it, {second: TaskFact(Phase.ENDED, 1, by_itself=True)})
        sees(it, {first: TaskFact(Phase.ENDED, 143)})
        visitor = it.visitor()
        page = visitor.page("/workflow/pair-1")
        assert "main-1 on n0 failed first: KeyError: 'scale'" in words_of(page)
        assert "1 other task ended after it" in words_of(page)
        assert lines_of(page)[-1] == ("", "08:01:41 main-0 NCCL: connection closed by peer")
        other = visitor.page("/workflow/pair-1?task=main-0")
        assert [text for _, text in lines_of(other)] == [
            "08:01:40 main-0 one",
            "08:01:41 main-0 NCCL: connection closed by peer",
        ]
        (link,) = [str(each["href"]) for each in Elements(other).named("a") if str(each.get("href")).endswith("#error")]
        assert link == "/workflow/pair-1?task=main-1&attempt=1#error"
        assert 'id="error"' in visitor.page(link.partition("#")[0])


def test_search_shows_all_matching_lines_and_their_number(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        it.desk.submit("a", text=one_task("a"))
        it.desk.service.settle()
        writes(
            tmp_path, it, TaskKey("a-1", "main", 0), tuple(f"step {number} Loss {number}" for number in range(3_000))
        )
        visitor = it.visitor()
        page = visitor.page("/workflow/a-1?find=loss+29")
        assert "111 lines with loss 29 All output" in words_of(page)
        assert {"Loss 29" in text for _, text in lines_of(page)} == {True}
        assert "2,999 lines with step, the last 2,000 are shown" not in words_of(
            visitor.page("/workflow/a-1?find=STEP")
        )
        assert "3,000 lines with STEP , the last 2,000 are shown" in words_of(visitor.page("/workflow/a-1?find=STEP"))
        assert "0 lines with nothing" in words_of(visitor.page("/workflow/a-1?find=nothing"))
        assert visitor.get(f"/workflow/a-1?find={'x' * 201}").status_code == 422


def test_earlier_lines_are_one_link_away_and_complete(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        it.desk.submit("a", text=one_task("a"))
        it.desk.service.settle()
        written = [f"line {number}" for number in range(4_500)]
        writes(tmp_path, it, TaskKey("a-1", "main", 0), tuple(written))
        found: list[str] = []
        visitor, path = it.visitor(), "/workflow/a-1"
        while path:
            page = visitor.page(path)
            found = [text.partition(" ")[2] for kinds, text in lines_of(page) if kinds != "rule"] + found
            earlier = re.search(r'<a href="([^"]*)#output-title">Earlier lines', page)
            path = earlier[1].replace("&amp;", "&") if earlier else ""
        assert found == written


def test_download_has_all_lines_of_all_attempts(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        it.desk.submit("a", text=one_task("a"))
        it.desk.service.settle()
        written = tuple(f"line {number}" for number in range(4_500))
        writes(tmp_path, it, TaskKey("a-1", "main", 0), written, FAILURE)
        answer = it.visitor().get("/workflow/a-1/output.txt")
        assert answer.headers["content-disposition"] == 'attachment; filename="a-1.txt"'
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.text.splitlines() == [*written, *FAILURE]
        assert it.person("eve", "pool2-user").get("/workflow/a-1/output.txt").status_code == 404


def test_names_lines_and_errors_of_others_stay_text(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        it.desk.submit("a", text=one_task("a").replace("'1'", f'"{HOSTILE}"'))
        it.desk.service.settle()
        loud = f"\x1b[31m{HOSTILE}\x1b[0m\u202e\x07"
        fails(
            tmp_path, it, TaskKey("a-1", "main", 0), (loud, "10 %\r20 %\r30 %"), (*FAILURE[:2], f"ValueError: {loud}")
        )
        page = it.visitor().page("/workflow/a-1")
        assert not {
            each for each in ("<script>alert", "<img src=x", "\x1b", "\u202e", "\x07", "[31m", "10 %") if each in page
        }
        assert (
            "said err",
            "08:00:04 ValueError: &lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;",
        ) in lines_of(page)
        assert lines_of(page)[1] == ("", "08:00:01 30 %")


def test_attempts_are_distinguished_and_one_can_be_chosen(tmp_path: Path) -> None:
    text = one_task("a").replace("    resource: one\n", "    resource: one\n    exitActions: {RESCHEDULE: '75'}\n")
    with site(tmp_path) as it:
        it.desk.submit("a", text=text)
        it.desk.service.settle()
        first = TaskKey("a-1", "main", 0)
        sees(it, {first: TaskFact(Phase.RUNNING)})
        writes(tmp_path, it, first, ("one",))
        sees(it, {first: TaskFact(Phase.ENDED, 75, by_itself=True)})
        writes(tmp_path, it, TaskKey("a-1", "main", 1), ("two",), began=T0 + 200_000)
        visitor = it.visitor()
        rule, day, last = lines_of(visitor.page("/workflow/a-1"))[1:]
        assert (rule[0], rule[1].startswith("main: attempt 1 ended: "), rule[1].endswith("; attempt 2")) == (
            "rule",
            True,
            True,
        )
        assert (day, last) == (("rule", "2027-01-17"), ("", "15:33:20 two"))
        assert lines_of(visitor.page("/workflow/a-1?attempt=1")) == [("", "08:00:00 one")]
        assert visitor.get("/workflow/a-1?attempt=x").status_code == 422


def test_refresh_does_not_read_the_output_again(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        it.desk.submit("a", text=one_task("a"))
        it.desk.service.settle()
        writes(tmp_path, it, TaskKey("a-1", "main", 0), PROGRESS)
        assert "epoch 1" not in it.visitor().get("/workflow/a-1", **{"X-Page-Refresh": "1"}).text


def test_page_with_2000_lines_uses_little_processor_time(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        it.desk.submit("pair", text=TWO)
        it.desk.service.settle()
        for pod in (0, 1):
            lines = tuple(
                f"epoch {number} loss 0.{number:05} lr 1e-4 {number} images per second" for number in range(20_000)
            )
            writes(tmp_path, it, TaskKey("pair-1", f"main-{pod}", 0), lines, began=T0 + pod / 2)
        visitor = it.visitor()
        assert len(lines_of(visitor.page("/workflow/pair-1"))) == 2_000
        taken = []
        for _ in range(5):
            began = time.process_time()
            visitor.page("/workflow/pair-1")
            taken.append(time.process_time() - began)
        assert min(taken) <= 0.150, taken


def test_gpu_use_is_shown_where_it_is_measured(tmp_path: Path) -> None:
    gib = 1024**3
    minutes = [(0, 90, 60), (60, 100, 62), (180, 50, 31)]
    with site(tmp_path) as it:
        id = it.desk.submit("train", text=TWO)
        it.desk.later(1)
        visitor = it.visitor()
        assert "GPU use" not in visitor.page(f"/workflow/{id}")
        it.desk.backend.gpus = {"n0": [GpuUse(0, 96, 61 * gib, 80 * gib, 600.0), GpuUse(1, 0, gib, 80 * gib, 70.0)]}
        it.desk.backend.minutes = tuple(
            GpuMinute(datetime.fromtimestamp(T0 + 60 + after, UTC), busy, used * gib) for after, busy, used in minutes
        )
        it.desk.later(50)
        assert "Task Now Average main-0 96% busy, 61 GiB – main-1 0% busy, 1 GiB –" in words_of(
            visitor.page(f"/workflow/{id}")
        )
        it.desk.later(200)
        page = visitor.page(f"/workflow/{id}")
        assert "main-0 – 80% busy, 51 GiB main-1 – 80% busy, 51 GiB" in words_of(page)
        assert "GPU use, average of 2 GPUs 100% 50% 0 " in words_of(page)
        assert " 64 GiB 0 08:01 08:05 busy memory Task " in words_of(page)
        assert re.findall(r'class="(busy|memory)" d="(.*?)"', page) == [
            ("busy", "M0 100V10H250V0H500V100M750 100V50H1000V100"),
            ("memory", "M0 6V6H250V3H500M750 52V52H1000"),
        ]
        assert re.findall(r"<title>(01-15.*?)</title>", page) == [
            f"01-15 08:0{minute} UTC: {busy}% busy, {memory} GiB"
            for minute, (_, busy, memory) in zip((1, 2, 4), minutes, strict=True)
        ]


def test_a_page_reads_what_is_stored_of_a_workflow_once_and_the_end_of_the_log_of_an_array(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An array of 1,000 elements has as many groups and tasks, and thousands of events."""
    with site(tmp_path) as it:
        it.desk.submit("a", gpus=2)
        it.desk.service.settle()
        read: list[str] = []

        def noted(what: Any, name: str) -> None:
            found = getattr(what, name)

            def reads(*args: Any, **more: Any) -> Any:
                read.append(name)
                return found(*args, **more)

            monkeypatch.setattr(what, name, reads)

        for name in ("workflow", "spec"):
            noted(it.desk.store, name)
        for name in ("events", "latest"):
            noted(it.desk.store.log, name)
        assert "a-1" in words_of(it.visitor().page("/workflow/a-1"))
        assert read == ["workflow", "spec", "events"]
        it.desk.submit("sweep", text=SWEEP, pool="pool2")
        it.desk.service.settle()
        monkeypatch.setattr(workflow_page, "MOST_LOGGED", 6)
        read.clear()
        page = words_of(it.visitor().page("/workflow/sweep-1"))
        assert read == ["workflow", "spec", "latest"]
        count = len(it.desk.store.log.events(workflow="sweep-1"))
        assert f"Events {count}, the last: " in page
        assert f"{count - 6} earlier events: runrig workflow events sweep-1" in page
        assert "Only the latest attempts are shown." in page


SWEEP = sweep("0-79", most=4, duration=1000, command='[train, "{{array_index}}"]')


def test_elements_of_an_array_are_listed_by_page_with_those_that_failed_and_run_first(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        it.desk.submit("sweep", text=SWEEP, pool="pool1")
        it.desk.service.settle()
        fails(tmp_path, it, TaskKey("sweep-1", "main-1", 0))
        visitor = it.visitor()
        page, second = (visitor.page(f"/workflow/sweep-1?page={number}") for number in (1, 2))
        rows, rest = (re.findall(r'(?:output|why)-title">(main-[0-9]+)</a>', each) for each in (page, second))
        assert (len(rows), len(rest), rows[:3]) == (50, 30, ["main-1", "main-0", "main-2"])
        assert not {*rows} & {*rest}
        assert "80, at most 4 at a time 1 failed 2 running" in words_of(page)
        assert "1 of 2; failed and running first Next" in words_of(page)
        assert words_of(page).count("train '{{array_index}}'") == 1
        assert "1 failed, 2 running, 2 queued, 75 waiting of 80 elements" in words_of(visitor.page("/workflows"))
        assert "There are only 2 pages. First page" in words_of(visitor.page("/workflow/sweep-1?page=3"))


def test_an_element_that_waits_leads_to_why_it_waits(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        it.desk.submit("sweep", text=SWEEP, pool="pool1")
        it.desk.service.settle()
        visitor = it.visitor()
        for page in ("/workflow/sweep-1", "/workflows?open=sweep-1"):
            found = visitor.page(page)
            assert "/workflow/sweep-1?element=5#why-title" in found
            assert "/workflow/sweep-1?task=main-0#output-title" in found
        assert "element 5 WAITING" in words_of(visitor.page("/workflow/sweep-1?element=5"))
        do(it.desk.service, it.desk.service.submissions.cancelling_element("sweep-1", "5", user="ann"))
        assert "element 5 WAITING" not in words_of(visitor.page("/workflow/sweep-1?element=5"))
        assert "has no element '99'" in visitor.get("/workflow/sweep-1?element=99").text.replace("&#39;", "'")


def array_of(it: Site) -> tuple[int | None, int, int, int]:
    found = it.desk.service.workflow_queries.workflow("sweep-1").array
    assert found is not None
    return found.most, found.running, found.queued, found.cancelled


def test_an_array_is_widened_and_elements_are_cancelled_on_the_page_after_a_preview(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        it.desk.submit("sweep", text=SWEEP, pool="pool1")
        it.desk.service.settle()
        visitor = it.visitor()
        widen, cancel = "/workflow/sweep-1/array", "/workflow/sweep-1/elements"
        assert f'href="{widen}"' in (page := visitor.page("/workflow/sweep-1"))
        assert page.count("Nothing ran") == 2, "those that wait have no output, not even the note of simulated ones"
        assert f'href="{cancel}?of=3"' in page
        shown = visitor.fill(widen, most="10").text
        assert "6 elements would enter the queue now" in words_of(shown)
        assert visitor.confirm(widen, shown).headers["location"] == "/workflow/sweep-1"
        assert array_of(it) == (10, 2, 8, 0)
        shown = visitor.fill(cancel, of="1,40-42", message="too long").text
        assert "4 elements would be cancelled: 1 pod on 1 node with 1 GPU would be stopped" in words_of(shown)
        assert visitor.confirm(cancel, shown).headers["location"] == "/workflow/sweep-1"
        it.desk.later(10)
        it.desk.later(10)  # The first stopped; now it is gone.
        assert array_of(it) == (10, 2, 8, 4)
        for path, typed, says in (
            (widen, {"most": "x"}, "'x' is not a number of elements from 1 to"),
            (widen, {"most": "0000000010"}, "sweep-1 already runs at most 10 of its elements at a time"),
            (cancel, {"of": "40"}, "sweep-1/40 is already FAILED_CANCELED"),
            (cancel, {"of": "90"}, "sweep-1 has no element '90'. Its elements are 0-79"),
            (cancel, {"of": "9-0"}, "the range 9-0 is reversed"),
            (cancel, {"of": "0-200"}, "201 elements are chosen. Choose at most 100, or cancel the array"),
        ):
            answer = visitor.fill(path, **typed)
            assert answer.status_code >= 400
            assert says in words_of(answer.text)
        other = it.person("bob", "pool2-user")
        assert [other.get(path).status_code for path in (widen, cancel)] == [404, 404]
