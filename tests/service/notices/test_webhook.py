"""A webhook arrives signed, and nothing that a user can name makes the server call where it should not."""

import hashlib
import hmac
import ipaddress
import socket
import threading
from pathlib import Path

import pytest

from runrig.domain.errors import InvalidInput
from runrig.domain.notices import DELIVERED
from runrig.service.notices import webhook
from runrig.service.notices.webhook import Webhook, check_address, is_public
from tests.service.notices.receiver import HERE, receiving


def test_notice_arrives_with_its_signature_and_delivery_id(tmp_path: Path) -> None:
    with receiving(tmp_path) as (there, trusts):
        assert Webhook(HERE, trusts).send(f"{there.url}/in?a=1", '{"event":"fail"}', "secret", "d-1") == DELIVERED
        ((headers, body),) = there.got
    assert body == b'{"event":"fail"}'
    assert headers["x-runrig-delivery"] == "d-1"
    assert headers["x-runrig-signature"] == "sha256=" + hmac.new(b"secret", body, hashlib.sha256).hexdigest()


@pytest.mark.parametrize(
    ("path", "status", "result"),
    [
        ("/", 500, "localhost answered with status 500"),
        ("/", 302, "localhost answered with a redirect (302), which is not followed"),
        ("/large", 200, "localhost answered with more than 64 KiB"),
    ],
)
def test_error_response_is_not_a_delivery(tmp_path: Path, path: str, status: int, result: str) -> None:
    with receiving(tmp_path) as (there, trusts):
        there.answers = [status]
        assert Webhook(HERE, trusts).send(there.url + path, "{}", "s", "d") == result
        assert len(there.got) == 1


def test_hanging_receiver_is_abandoned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The receiver hangs until it has been abandoned."""
    monkeypatch.setattr(webhook, "TIMEOUT_S", 0.2)
    with receiving(tmp_path) as (there, trusts):
        for path in ("/slow", "/endless"):
            assert "did not answer within" in Webhook(HERE, trusts).send(f"{there.url}{path}", "{}", "s", "d")


def test_result_contains_nothing_that_another_kind_of_server_sent(tmp_path: Path) -> None:
    with receiving(tmp_path) as (there, trusts):
        result = Webhook(HERE, trusts).send(f"{there.url}/garbage", "{}", "s", "d")
    assert result == "localhost gave no valid HTTP answer (BadStatusLine)"


def test_private_address_is_not_called_unless_allowed(tmp_path: Path) -> None:
    with receiving(tmp_path) as (there, trusts):
        result = Webhook((), trusts).send(there.url, "{}", "s", "d")
        assert "localhost has the private address" in result
        assert "notify.allow" in result
        assert there.got == []


def test_untrusted_server_with_the_same_name_gets_nothing(tmp_path: Path) -> None:
    with receiving(tmp_path) as (there, _):
        assert "certificate" in Webhook(HERE).send(there.url, "{}", "s", "d")
        assert there.got == []


PRIVATE = (
    *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1"),
    *("::1", "fe80::1", "fd00::1", "ff02::1", "::ffff:10.0.0.1", "2002:7f00:1::", "64:ff9b::a00:1", "2001:0:1::1"),
)


@pytest.mark.parametrize("address", PRIVATE)
def test_private_address_is_recognised_in_every_form(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"])
def test_internet_address_is_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "url",
    ["http://h/", "https://", "h", "https://user:pw@h/", "https://h:0/", "https://h:x/", "https://h/a b", "https://h/#x",
     "file:///etc/passwd", "https://h/\n", "https://h/" + "x" * 1000, f"https://{'a' * 64}.com/", "https://a..b/"],
)  # fmt: skip
def test_only_https_addresses_are_accepted(url: str) -> None:
    with pytest.raises(InvalidInput, match="is not an https address"):
        check_address(url)


@pytest.mark.parametrize("host", ["127.0.0.1", "10.1.2.3", "[::1]", "[::ffff:192.168.0.1]", "169.254.169.254"])
def test_a_private_address_is_refused_when_it_is_set(host: str) -> None:
    with pytest.raises(InvalidInput, match=r"has the private address .* An admin can allow it: notify\.allow"):
        Webhook().check(f"https://{host}/x")
    Webhook((ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))).check(f"https://{host}/x")
    Webhook().check("https://8.8.8.8/x")


def test_unknown_host_name_is_not_a_delivery() -> None:
    assert Webhook().send(f"https://{'a' * 64}.com/", "{}", "s", "d").startswith(f"{'a' * 64}.com cannot be reached")


def test_a_dns_lookup_that_hangs_ends_the_attempt_in_time_and_is_shared_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answered, asked, ended = threading.Event(), [], threading.Event()

    def getaddrinfo(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        asked.append(host)
        if len(asked) == 1:
            answered.wait(30)
        return [(None, None, None, "", ("10.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(webhook, "TIMEOUT_S", 0.2)
    sender = Webhook()
    try:
        for _ in range(2):
            said = sender.send("https://hangs.example.org/", "{}", "s", "d")
            assert said == "the DNS lookup of hangs.example.org did not end within 0 s"
        assert sender.send("https://other.example.org/", "{}", "s", "d").startswith("other.example.org has the private")
        assert asked == ["hangs.example.org", "other.example.org"]
        sender._lookup("hangs.example.org", 443).add_done_callback(lambda _: ended.set())
    finally:
        answered.set()
    assert ended.wait(20)
    assert sender.send("https://hangs.example.org/", "{}", "s", "d").startswith("hangs.example.org has the private")
    assert asked == ["hangs.example.org", "other.example.org", "hangs.example.org"]
