"""Where the server and its token are found."""

import json
import os
from pathlib import Path

import pytest

from runrig.client import Client, NoAnswer
from runrig.client.server_address import Address, ServerAddress, checked
from tests.cli.canned_server import page, refused, serving
from tests.worlds.command_line import runrig

ANSWERS = {"GET /api/v1/version": {"version": "0.1.0"}, "GET /api/v1/pools": page()}


def data_folder(folder: Path, *, url: str | None = None, token: str | None = None) -> dict[str, str]:
    if url:
        (folder / "server.json").write_text(json.dumps({"url": url, "pid": 1}))
    if token:
        (folder / "token").write_text(token + "\n")
    return {"RUNRIG_DATA": str(folder)}


def test_data_folder_has_the_address_and_token_of_its_server(tmp_path: Path) -> None:
    with serving(ANSWERS) as server:
        done = runrig("pool", "list", env=data_folder(tmp_path, url=server.url, token="s3cret"))
    assert (done.code, server.tokens) == (0, ["Bearer s3cret"])


def test_data_option_overrides_the_environment(tmp_path: Path) -> None:
    with serving(ANSWERS) as server:
        data_folder(tmp_path, url=server.url, token="s3cret")
        for args in (["--data", str(tmp_path), "pool", "list"], ["pool", "list", "--data", str(tmp_path)]):
            assert runrig(*args, env={"RUNRIG_DATA": "/elsewhere"}).code == 0
    assert server.tokens == ["Bearer s3cret"] * 2


def test_folder_without_a_server_is_named(tmp_path: Path) -> None:
    """Not the server at the default port, which has other data."""
    folder = tmp_path / "my data"
    said = f"no server is running on the data folder '{folder}'. Start one with `runrig up --data '{folder}'`, or set --server"
    for env in ({}, {"RUNRIG_DATA": str(folder)}):
        done = runrig("pool", "list", *([] if env else ["--data", str(folder)]), env=env)
        assert (done.code, done.out, done.err) == (10, "", f"Error: {said}\n")
    assert runrig("version", "--data", str(folder)).out.splitlines()[1:] == [said]
    with Client(data=str(folder)) as client, pytest.raises(NoAnswer, match="no server is running"):
        client.version()


def test_given_address_overrides_the_data_folder(tmp_path: Path) -> None:
    env = data_folder(tmp_path, url="http://127.0.0.1:1")
    with serving(ANSWERS) as server:
        assert runrig("pool", "list", "--server", server.url, env=env).code == 0
        assert runrig("--server", server.url, "pool", "list", env=env).code == 0
        assert runrig("pool", "list", env=env | {"RUNRIG_SERVER": server.url}).code == 0


def test_token_of_the_environment_overrides_that_of_the_folder(tmp_path: Path) -> None:
    with serving(ANSWERS) as server:
        env = data_folder(tmp_path, url=server.url, token="folder") | {"RUNRIG_TOKEN": "env"}
        runrig("pool", "list", env=env)
    assert server.tokens == ["Bearer env"]


@pytest.mark.parametrize("host", ["127.0.0.1:8700", "localhost:1", "[::1]:8700"])
def test_token_of_the_folder_is_sent_to_this_machine(host: str, tmp_path: Path) -> None:
    data_folder(tmp_path, token="s3cret")
    assert ServerAddress(data=str(tmp_path)).token(Address(f"http://{host}", "a test")) == "s3cret"


@pytest.mark.parametrize("host", ["gpu.example:8700", "192.0.2.1", "localhost.example", "127.0.0.1.example"])
def test_token_of_the_folder_is_sent_nowhere_else(host: str, tmp_path: Path) -> None:
    data_folder(tmp_path, token="s3cret")
    assert ServerAddress(data=str(tmp_path)).token(Address(f"http://{host}", "a test")) is None


def test_refusal_without_a_token_says_where_to_get_one(tmp_path: Path) -> None:
    answers = {"GET /api/v1/pools": (401, refused("a token is needed", "FORBIDDEN"))}
    with serving(answers) as server:
        done = runrig("pool", "list", env=data_folder(tmp_path, url=server.url))
    assert done.code == 4
    assert done.err == (
        f"Error: a token is needed (no token was sent, and {tmp_path} has none; set the data folder of the server with --data)\n"
    )


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1",
        "localhost",
        ":8700",
        "127.0.0.1:87000",
        "http:8700",
        "ftp://x",
        "http://",
        "http://a:b",
        "http://a b",
        "http://h\r\nX: y",
    ],
)
def test_invalid_address_is_wrong_usage(url: str) -> None:
    done = runrig("pool", "list", "--server", url)
    assert done.code == 2
    assert done.err == f"Error: {url!r} (from --server) is not a server address. Use http://HOST:PORT\n"


@pytest.mark.parametrize("url", ["127.0.0.1:8700", "localhost:8700", "[::1]:8700", "localhost:8700/"])
def test_host_and_port_are_enough_on_loopback(url: str) -> None:
    assert checked(url, "a test") == Address(f"http://{url.rstrip('/')}", "a test")


@pytest.mark.parametrize("url", ["gpu.example.org:8700", "10.0.0.1:80", "gpu:443"])
def test_address_beyond_loopback_needs_a_scheme(url: str) -> None:
    done = runrig("pool", "list", "--server", url)
    says = f"Error: {url!r} (from --server) is not on this machine. Use https://{url}, or http:// without TLS\n"
    assert (done.code, done.err) == (2, says)


def test_damaged_record_counts_as_none(tmp_path: Path) -> None:
    for text in ("", "{", "[]", '{"url": 5}'):
        (tmp_path / "server.json").write_text(text)
        done = runrig("version", env={"RUNRIG_DATA": str(tmp_path)})
        assert "no server is running on the data folder" in done.out


def test_pipes_in_the_data_folder_are_not_waited_for(tmp_path: Path) -> None:
    for name in ("server.json", "token"):
        os.mkfifo(tmp_path / name)
    address = ServerAddress(data=str(tmp_path))
    assert (address.address().source, address.token(Address("http://127.0.0.1:1", ""))) == ("the default", None)


def test_token_file_with_control_characters_is_refused(tmp_path: Path) -> None:
    done = runrig("pool", "list", env=data_folder(tmp_path, url="http://127.0.0.1:1", token="a\nb"))
    assert (done.code, done.err) == (
        2,
        f"Error: the token in {tmp_path}/token contains invalid characters. Copy it again\n",
    )
