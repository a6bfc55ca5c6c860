"""Mail arrives encrypted and whole, and nothing that a user can choose adds a recipient or a header."""

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from runrig.domain.errors import InvalidInput
from runrig.domain.notices import DELIVERED, Security, Smtp, mail_domain
from runrig.service.notices import mail
from runrig.service.notices.mail import Letter, Mail, letter_of
from tests.service.notices.mailbox import PASSWORD, mailbox

ANN = "ann@example.org"
TOLD = {
    "event": "preempt",
    "id": "train-2",
    "pool": "vision",
    "user": "ann",
    "status": "PENDING",
    "cause": "was preempted by work of another pool (Reclaim, rule R2)",
    "law": "R2",
    "at": "2026-01-31T12:00:00+00:00",
    "address": "https://runrig.example.org/workflow/train-2",
}


def letter(to: str = ANN, **changes: str) -> Letter:
    return letter_of(to, "d-1", [json.dumps({**TOLD, **changes})])


@pytest.mark.parametrize("security", list(Security))
def test_notice_arrives_over_each_kind_of_connection(tmp_path: Path, security: Security) -> None:
    with mailbox(tmp_path, security) as (there, sends):
        assert sends.send([letter()]) == [DELIVERED]
    ((recipients, got),) = there.got
    assert (recipients, got["From"], got["To"]) == ([ANN], "runrig@example.org", ANN)
    assert (got["Subject"], got["Message-ID"]) == ("train-2 was preempted", "<d-1@example.org>")
    assert got.get_content().splitlines() == [
        "train-2 in pool vision was preempted at 2026-01-31 12:00:00 UTC.",
        "",
        "Reason: preempted by work of another pool (Reclaim, rule R2)",
        "",
        "https://runrig.example.org/workflow/train-2",
    ]


def test_server_logs_in_and_says_nothing_of_the_password_if_it_is_wrong(tmp_path: Path) -> None:
    with mailbox(tmp_path, Security.STARTTLS, login=True) as (there, sends):
        for password, result in (
            (PASSWORD, DELIVERED),
            (
                "wrong-horse",
                "localhost refused the login of this server. An admin can change notify.smtp in serve.yaml",
            ),
        ):
            smtp = there.smtp(Security.STARTTLS, user="runrig", password=password)
            assert Mail(smtp, sends._tls).send([letter()]) == [result]
            assert password not in repr(smtp)


def test_many_notices_share_a_mail_and_many_mails_a_connection(tmp_path: Path) -> None:
    bodies = [json.dumps({**TOLD, "id": f"sweep-{n}", "event": "done" if n else "fail", "cause": ""}) for n in range(3)]
    with mailbox(tmp_path) as (there, sends):
        assert sends.send([letter(), letter_of("bob@example.org", "d-2", bodies)]) == [DELIVERED, DELIVERED]
    assert (there.connections, there.subjects[1]) == (1, "3 notices: 1 failed, 2 completed")
    assert there.got[1][1].get_content().splitlines()[0] == "2026-01-31 12:00:00 UTC  sweep-0 failed"


def test_refused_recipient_delays_no_other(tmp_path: Path) -> None:
    with mailbox(tmp_path) as (there, sends):
        there.refuses = {ANN: "451 4.7.1 try again\x07 later", "cy@example.org": "550 no such user"}
        assert sends.send([letter(), letter("bob@example.org"), letter("cy@example.org")]) == [
            f"localhost refused {ANN}: 451 4.7.1 try again later",
            DELIVERED,
            "localhost refused cy@example.org: 550 no such user",
        ]


def test_damaged_address_delays_no_other(tmp_path: Path) -> None:
    with mailbox(tmp_path) as (there, sends):
        found = sends.send([letter("ann@example.org\nBcc: eve@example.org"), letter("bob@example.org")])
        assert found == ["'ann@example.org\\nBcc: eve@example.org' is not a mail address", DELIVERED]
    assert [recipients for recipients, _ in there.got] == [["bob@example.org"]]


def test_mail_that_is_not_answered_leaves_the_next_ones_untried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail, "TIMEOUT_S", 0.5)
    with mailbox(tmp_path) as (_, sends):
        results = sends.send([letter("slow@example.org"), letter()])
    assert results == ["localhost did not answer within 0 s", None]


def test_server_that_says_nothing_or_is_gone_or_hangs_up_is_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail, "TIMEOUT_S", 0.2)
    with mailbox(tmp_path, Security.STARTTLS) as (there, sends), socket.create_server(("127.0.0.1", 0)) as silent:
        there.port = silent.getsockname()[1]
        asked = Mail(there.smtp(Security.STARTTLS), sends._tls)
        assert asked.send([letter(), letter()]) == ["localhost did not answer within 0 s"] * 2
        silent.close()
        assert asked.send([letter()]) == ["localhost cannot be reached (Connection refused)"]


@pytest.mark.parametrize(
    ("says", "result"),
    [
        (b"250-x", "127.0.0.1 did not answer within 0 s"),
        (b"250-x\n" * 10_000, "127.0.0.1 answered with more than 64 KiB"),
    ],
    ids=["bit by bit", "without end"],
)
def test_endless_answer_takes_neither_time_nor_memory(
    says: bytes, result: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail, "TIMEOUT_S", 0.2 if len(says) < 10 else 20)
    ended = threading.Event()

    def answers(listener: socket.socket) -> None:
        with listener.accept()[0] as connection, suppress(OSError):
            while not ended.wait(0.02):
                connection.sendall(says)

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as threads:
        threads.submit(answers, listener)
        smtp = Smtp("127.0.0.1", listener.getsockname()[1], Security.NONE, "runrig@example.org", ("example.org",))
        found = Mail(smtp).send([letter()])
        ended.set()
    assert found == [result]


def test_nothing_is_sent_without_the_encryption_that_was_asked_for(tmp_path: Path) -> None:
    with mailbox(tmp_path, Security.NONE) as (there, sends):
        (result,) = Mail(there.smtp(Security.STARTTLS), sends._tls).send([letter()])
        assert result == "localhost offers no encryption or no login. An admin can change notify.smtp in serve.yaml"
        assert there.got == []
    with mailbox(tmp_path) as (there, _):
        (result,) = Mail(there.smtp()).send([letter()])  # Its certificate is not trusted.
        assert result is not None
        assert ("certificate" in result.lower() or "SSL" in result, there.got) == (True, [])


def test_text_of_a_failure_cannot_add_headers_or_bytes(tmp_path: Path) -> None:
    with mailbox(tmp_path) as (there, sends):
        hostile = "x\r\n.\r\nMAIL FROM:<a@b>\r\nBcc: eve@evil.org\r\n\x1b[31m"
        assert sends.send([letter(cause=hostile, id="w-1\r\nBcc: eve@evil.org")]) == [DELIVERED]
    ((recipients, got),) = there.got
    assert (recipients, got["Bcc"], got["Subject"]) == ([ANN], None, "w-1 Bcc: eve@evil.org was preempted")
    assert "\x1b" not in got.get_content()


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ann",
        "@example.org",
        "ann@",
        "ann@example.org\nBcc: eve@evil.org",
        "ann@example.org,eve@example.org",
        "ann@evil.org@example.org",
        "<ann@example.org>",
        "Ann <ann@example.org>",
        '"a b"@example.org',
        "ann@example.org ",
        "ann@exämple.org",
        "änn@example.org",
        "ann@[127.0.0.1]",
        "-oX@-example.org",
        f"{'a' * 65}@example.org",
        "a..b@example.org",
        "%0d@example..org",
    ],
)
def test_what_is_not_one_plain_address_is_refused(address: str) -> None:
    assert mail_domain(address) is None


def test_users_choose_among_the_domains_of_the_operator(tmp_path: Path) -> None:
    with mailbox(tmp_path) as (_, sends):
        sends.check("ann.b+runs@Example.ORG")
        with pytest.raises(InvalidInput, match=r"sends no mail to evil.org, only to example.org. Use another address"):
            sends.check("ann@evil.org")
        with pytest.raises(InvalidInput, match=r"'ann@' is not a mail address. Use for example NAME@example.org"):
            sends.check("ann@")
    with pytest.raises(InvalidInput, match="this server sends no mail"):
        Mail(None).check(ANN)
    assert Mail(None).send([letter()]) == ["this server no longer sends mail"]
