"""Acts of people on the page of a server that runs tasks, in Chromium; test_small.py has every act of the page."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.lab import Lab, file
from tests.browser.test_browser import looking
from tests.patience import until
from tests.worlds.command_line import up, written

CLUSTER = "pools: [{name: mine, quota: 2}, {name: spare, quota: 0}]\n"


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """runs-1 holds all that mine was promised, waits-1 waits behind it, and low-1 has what nobody was promised."""
    folder: Path = tmp_path_factory.mktemp("mine")
    with up(folder / "data", "--gpus", "4", "--cluster", written(folder, CLUSTER, "cluster.yaml")) as server:
        it = Lab(server, folder, server.said.split(" at ")[1].split(" ")[0])
        it.submit("runs", 2, pool="mine")
        it.submit("low", 1, pool="spare", priority="LOW")
        it.submit("waits", 2, pool="mine")
        for id in ("runs-1", "low-1"):
            until(lambda id=id: server.json("workflow", "query", id)["status"] == "RUNNING")  # type: ignore[misc]
        try:
            yield it
        finally:  # tasks outlive their server
            names = [each["name"] for each in server.json("workflow", "list", "-a")["workflows"]]
            server.runrig("workflow", "cancel", *names)
            until(lambda: server.json("workflow", "list", "-a", "-s", "RUNNING")["workflows"] == [])


def status(it: Lab, id: str) -> str:
    return str(it.server.json("workflow", "query", id)["status"])


def waiting(it: Lab) -> str:
    """waits-1, or the one that was submitted in its place."""
    (only,) = it.server.json("workflow", "list", "-a", "-s", "PENDING")["workflows"]
    return str(only["name"])


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def test_file_is_submitted_seen_to_start_and_cancelled(mine: Lab, chromium: Browser) -> None:
    with looking(mine, chromium) as watched:
        page = watched.goto("/workflows")
        page.get_by_role("link", name="Submit", exact=True).click()
        box = page.get_by_role("dialog", name="Submit a workflow")
        expect(box).to_be_visible()
        box.get_by_label("Workflow file").fill(file("typed", 1))
        box.get_by_label("Pool").select_option("spare")
        box.get_by_label("Priority").select_option("LOW")
        box.get_by_text("Environment, labels and").click()
        box.get_by_label("Labels").fill("team=seen\n")
        press(page, "Preview")
        expect(box).to_contain_text("typed would start now")
        assert page.url.endswith("/workflows")
        press(page, "Submit")
        page.wait_for_url("**/workflow/typed-1")
        labelled = mine.server.json("workflow", "list", "-a", "--label", "team=seen")["workflows"]
        assert [each["name"] for each in labelled] == ["typed-1"]
        expect(page.locator("#head .badge")).to_have_text("RUNNING")
        page.get_by_role("link", name="Cancel…").click()
        box = page.get_by_role("dialog", name="Cancel typed-1?")
        expect(box).to_contain_text("1 pod on 1 node with 1 GPU will be stopped.")
        page.keyboard.press("Escape")
        expect(box).to_be_hidden()
        page.get_by_role("link", name="Cancel…").click()
        box.get_by_label("Reason").fill("enough <b>seen</b>")
        press(page, "Cancel typed-1")
        expect(page.locator("#head .badge")).to_have_text("FAILED_CANCELED")
        expect(page.get_by_role("link", name="Restart…")).to_be_visible()
        watched.is_content()


def test_chosen_file_is_read_and_its_errors_are_shown_next_to_it(mine: Lab, chromium: Browser) -> None:
    path = written(mine.folder, file("chosen", 1) + "  colour: red\n", "chosen.yaml")
    with looking(mine, chromium) as watched:
        page = watched.goto("/submit")
        page.get_by_label("Or choose a file").set_input_files(path)
        expect(page.get_by_label("Workflow file")).to_have_value(Path(path).read_text())
        page.get_by_label("Pool").select_option("spare")
        press(page, "Preview")
        said = page.get_by_role("alert")
        expect(said).to_contain_text("a workflow has no field 'colour'")
        expect(said).to_be_focused()
        expect(page.get_by_label("Workflow file")).to_have_value(Path(path).read_text())
        watched.complaints = [each for each in watched.complaints if "status of 422" not in each]
        watched.is_content()


def test_reason_is_shown_and_a_larger_pool_lets_it_start(mine: Lab, chromium: Browser) -> None:
    with looking(mine, chromium) as watched:
        page = watched.goto("/workflow/waits-1")
        expect(page.locator(".sentence")).to_contain_text(
            "waits-1 is waiting: needs 2 GPUs, but pool mine has no quota left"
        )
        page = watched.goto("/pool/mine")
        page.get_by_role("link", name="Edit…").click()
        box = page.get_by_role("dialog", name="Edit mine")
        box.get_by_label("Quota of default/gpu").fill("four")
        press(page, "Preview")
        expect(box.get_by_role("alert")).to_contain_text("invalid number of GPUs")
        box.get_by_label("Quota of default/gpu").fill("4")
        press(page, "Preview")
        expect(box).to_contain_text("1 group (waits-1) would start on 2 GPUs")
        expect(box).to_contain_text("Cost: 1 GPU in spare (1 group preempted).")
        assert mine.server.json("pool", "show", "mine")["quota"] == 2
        press(page, "Change mine")
        expect(page.locator("#figures")).to_contain_text("Quota4")
        until(lambda: status(mine, "waits-1") == "RUNNING")
        mine.server.runrig("workflow", "cancel", "waits-1")
        mine.server.runrig("pool", "update", "mine", "--quota", "2")
        mine.submit("waits", 2, pool="mine")  # unchanged
        until(lambda: status(mine, "low-1") == "RUNNING")
        watched.complaints = [each for each in watched.complaints if "status of 422" not in each]
        watched.is_content()


def test_slider_works_by_keyboard_and_the_last_query_counts(mine: Lab, chromium: Browser) -> None:
    with looking(mine, chromium) as watched:
        page = watched.goto("/pool/mine")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url) if "what-if" in request.url else None)
        page.get_by_role("slider", name="Quota").focus()
        for _ in range(2):
            page.keyboard.press("ArrowRight")
        answer = page.locator("#what-answer")
        expect(answer).to_contain_text("would start on 2 GPUs.")
        expect(answer).to_contain_text("Cost: 1 GPU in spare (1 group preempted).")
        expect(page.locator("form output")).to_have_text("4")
        page.keyboard.press("Home")
        expect(answer).to_contain_text("2 → 0")
        assert len(asked) <= 4
        assert mine.server.json("pool", "show", "mine")["quota"] == 2
        watched.is_content()


def test_move_and_forced_drain_are_confirmed_in_a_dialog(mine: Lab, chromium: Browser) -> None:
    id, node = waiting(mine), mine.server.json("resource", "list")["resources"][0]["hostname"]
    with looking(mine, chromium) as watched:
        page = watched.goto(f"/workflow/{id}")
        page.get_by_role("link", name="Move or reprioritise…").click()
        box = page.get_by_role("dialog")
        box.get_by_label("Priority").select_option("LOW")
        press(page, "Preview")
        expect(box.locator("#planned")).to_contain_text("NORMAL → LOW")
        box.get_by_role("link", name="Back").click()
        expect(box).to_be_hidden()
        page = watched.goto(f"/node/{node}")
        page.get_by_role("link", name="Drain…").click()
        expect(box.locator("#planned")).to_contain_text("low-1")
        expect(box.locator("#planned")).to_contain_text("Keeps running")
        box.get_by_label("Also stop HIGH and NORMAL workflows").check()
        press(page, f"Drain {node}")
        expect(box.locator("#planned")).not_to_contain_text("Keeps running")
        expect(box.locator("#planned")).to_contain_text("runs-1")
        watched.is_content()
    assert mine.server.json("workflow", "query", id)["priority"] == "NORMAL"
    assert [status(mine, each) for each in ("runs-1", "low-1")] == ["RUNNING", "RUNNING"]


def test_suggested_command_of_an_empty_server_works(tmp_path: Path, chromium: Browser) -> None:
    with up(tmp_path / "data", "--gpus", "1") as server:
        it = Lab(server, tmp_path, server.said.split(" at ")[1].split(" ")[0])
        with looking(it, chromium, permissions=["clipboard-read", "clipboard-write"]) as watched:
            page = watched.goto("/")
            press(page, "Copy")
            expect(page.get_by_role("button", name="Copied")).to_be_visible()
            command = str(page.evaluate("navigator.clipboard.readText()"))
            assert command == page.locator("#first").text_content()
            written_by, _, submitted_by = command.rstrip().rpartition("\n")
            assert submitted_by == "runrig workflow submit hello.yaml --pool default"
            subprocess.run(["sh", "-c", written_by], cwd=tmp_path, check=True)
            done = server.runrig("workflow", "submit", str(tmp_path / "hello.yaml"), "--pool", "default")
            assert done.code == 0, done.err
            expect(page.locator("#lately")).to_contain_text("hello-1")
            expect(page.get_by_role("button", name="Copy")).to_have_count(0)
            until(lambda: "hello\n" in server.runrig("workflow", "logs", "hello-1").out)
            server.runrig("workflow", "cancel", "hello-1")
            until(lambda: server.json("workflow", "query", "hello-1")["end_time"] is not None)
            watched.is_content()
