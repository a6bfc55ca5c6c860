"""Too much of anything: refused in time, without eating the memory of the server."""

from collections.abc import Iterator

import pytest

from runrig.http.body_limits import LARGEST_BODY
from tests.attack.target import Target, refused
from tests.attack.wire import request, wire

SUBMIT = "/api/pool/team/workflow"
JSON = ("Content-Type", "application/json")
MOST_WORK_S = 10.0
"""Seconds of processor time that one attack may cost."""
MOST_MEMORY = 150 * 1024 * 1024
"""Bytes that one attack may make the server grow by."""


@pytest.fixture(autouse=True)
def _bounded(target: Target) -> Iterator[None]:
    worked, before = target.processor_s(), target.memory()
    yield
    assert target.processor_s() - worked < MOST_WORK_S
    assert target.memory() - before < MOST_MEMORY


def test_body_with_an_excessive_length_is_not_read(target: Target) -> None:
    for length in (LARGEST_BODY + 1, 10**13, 10**19):
        head = request("POST", SUBMIT, [*target.headers(), JSON, ("Content-Length", str(length))])
        refused(target, target.raw(head), 413)


def test_client_that_is_still_sending_gets_the_reason(target: Target) -> None:
    """Its answer must not get lost because the rest of the body was never read."""
    body = b"x" * (4 * LARGEST_BODY)
    for _ in range(5):
        assert refused(target, target.ask("POST", SUBMIT, body=body), 413)["message"].endswith("Send less")
        refused(target, target.ask("POST", SUBMIT, user=None, body=body), 401)


def test_chunked_body_is_counted_as_it_arrives(target: Target) -> None:
    head = request("POST", SUBMIT, [*target.headers(), JSON, ("Transfer-Encoding", "chunked")])
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    with wire(target.port) as connection:
        connection.send(head, *[chunk] * (LARGEST_BODY // 0x10000 + 2))
        refused(target, connection.answer(), 413)
        assert connection.is_closed(10)


def test_body_in_a_hundred_thousand_chunks_is_one_body(target: Target) -> None:
    head = request("POST", SUBMIT, [*target.headers(), JSON, ("Transfer-Encoding", "chunked")])
    refused(target, target.raw(head, b"1\r\n[\r\n" * 100_000 + b"0\r\n\r\n"), 400, 422)


def test_compressed_body_is_not_unpacked(target: Target) -> None:
    headers = [*target.headers(), JSON, ("Content-Encoding", "gzip")]
    refused(target, target.ask("POST", SUBMIT, headers=headers, body=b"\x1f\x8b\x08" + b"\0" * 1000), 400, 415, 422)


BODIES = {
    "deep list": b"[" * 1_000_000,
    "deep and closed": b"[" * 100_000 + b"]" * 100_000,
    "deep object": b'{"a":' * 300_000,
    "deep in a field": b'{"file": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "long number": b'{"name": "x", "quota": ' + b"9" * 1_000_000 + b"}",
    "huge number": b'{"name": "x", "quota": 1e999999}',
    "number beyond 64 bits": b'{"name": "x", "quota": 123456789012345678901234567890}',
    "not a number": b'{"name": "x", "quota": NaN}',
    "infinity": b'{"name": "x", "quota": -Infinity}',
    "fraction": b'{"name": "x", "quota": 1.5}',
    "true as a number": b'{"name": "x", "quota": true}',
    "many keys": b"{" + b",".join(b'"k%d": 1' % n for n in range(100_000)) + b"}",
    "same key": b'{"name": "x", "name": ["y"], "quota": 1}',
    "half a character in a value": b'{"name": "\\ud800", "quota": 1}',
    "half a character in a key": b'{"\\ud800": 1, "name": "x", "quota": 1}',
    "null in a value": b'{"name": "x\\u0000y", "quota": 1}',
    "long name": b'{"name": "' + b"x" * 1_000_000 + b'", "quota": 1}',
    "list of everything": b"[" + b"0," * 500_000 + b"0]",
    "no encoding": b'{"name": "\xff\xfe", "quota": 1}',
    "UTF-16": '{"name": "x", "quota": -1}'.encode("utf-16"),
    "UTF-32": '{"name": "x", "quota": -1}'.encode("utf-32"),
    "mark of an encoding": b"\xef\xbb\xbf" + b'{"name": "x", "quota": -1}',
    "comment": b'{"name": "x", /* */ "quota": 1}',
    "prototype": b'{"__proto__": {"admin": true}, "constructor": 1}',
    "nothing": b"",
    "spaces": b" " * 1_000_000,
}


@pytest.mark.parametrize("name", BODIES)
def test_body_that_no_client_would_send_is_refused(target: Target, name: str) -> None:
    body = BODIES[name]
    for path in (SUBMIT, "/api/v1/pools", "/api/configs/pool/team/subpool", "/api/v1/apply", "/api/v1/cohorts"):
        refused(target, target.ask("POST", path, body=body), 400, 422)


LAUGHS = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 20))
ONE = "workflow: {name: x, tasks: [{name: a, image: i, command: [x]%s}]}"
FILES = {
    "billion laughs": f"l0: &l0 [lol]\n{LAUGHS}\nworkflow: *l19",
    "laughs in merges": "a: &a {x: 1}\n"
    + "\n".join(f"m{n}: &m{n} {{<<: [{', '.join(['*a'] * 50)}]}}" for n in range(500)),
    "laughs in strings": 'a: &a "' + "x" * 100_000 + '"\nworkflow: [' + ", ".join(["*a"] * 10_000) + "]",
    "itself": "a: &a [*a]\nworkflow: *a",
    "deep flow": "[" * 100_000,
    "deep blocks": "\n".join(" " * n + "a:" for n in range(1500)),
    "deep dashes": "- " * 100_000,
    "object of the language": "workflow: !!python/object/apply:os.system ['touch /tmp/never']",
    "name of the language": "workflow: !!python/name:os.system",
    "unknown tag": "workflow: !evil {}",
    "long number": f"workflow: {{name: x, timeout: {'9' * 100_000}}}",
    "sexagesimal": f"workflow: {{name: x, tasks: {'1:' * 50_000}1}}",
    "huge float": "workflow: {name: x, timeout: 1e999999}",
    "many documents": "---\na: 1\n" * 50_000,
    "many keys": "\n".join(f"k{n}: 1" for n in range(100_000)),
    "same keys": "workflow: 1\n" * 10_000,
    "null": "workflow: \0",
    "half a character": 'workflow: "\\ud800"',
    "control characters": "workflow: \x1b[2J\x07",
    "huge count": ONE % ", count: 999999999999",
    "many tasks": "workflow: {name: x, tasks: [" + "{name: a, image: i, command: [x]}," * 20_000 + "]}",
    "huge amount": (ONE % ", resource: r")[:-1] + ", resources: {r: {gpu: 99999999999999999999999999}}}",
    "huge memory": (ONE % ", resource: r")[:-1] + ", resources: {r: {gpu: 1, memory: 9e99Ei}}}",
    "path upwards": ONE % ", files: [{path: ../../../../etc/cron.d/x, contents: x}]",
    "path with null": ONE % ', files: [{path: "/a\\0b", contents: x}]',
}


@pytest.mark.parametrize("name", FILES)
def test_workflow_file_that_expands_endlessly_is_refused(target: Target, name: str) -> None:
    refused(target, target.ask("POST", SUBMIT, body={"file": FILES[name]}), 400, 413, 422)


@pytest.mark.parametrize("name", FILES)
def test_cluster_file_that_expands_endlessly_is_refused(target: Target, name: str) -> None:
    refused(target, target.ask("POST", "/api/v1/apply", body={"file": FILES[name], "dry_run": True}), 400, 413, 422)


TEMPLATES = {
    "endless loop": "{% for a in range(99999999) %}{% for b in range(99999999) %}{% endfor %}{% endfor %}",
    "huge text": "{{ 'x' * 999999999 }}",
    "huge power": "{{ 9 ** (9 ** (9 ** 9)) }}",
    "way out": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "way out by an attribute": "{{ ''|attr('__class__') }}",
    "way out by the loop": "{{ cycler.__init__.__globals__.os.system('touch /tmp/never') }}",
    "way out by a format": "{{ '{0.__class__.__init__.__globals__}'.format(x) }}",
    "endless macro": "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
    "file": "{% include '/etc/passwd' %}",
    "environment": "{{ environ }}{{ env }}{{ self.__dict__ }}",
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_template_that_expands_endlessly_is_refused(target: Target, name: str) -> None:
    text = f"{ONE % ''}\n# {TEMPLATES[name]}\n"
    for query in ("validation_only=true", "dry_run=true", ""):
        refused(target, target.ask("POST", f"{SUBMIT}?{query}", body={"file": text}), 400, 413, 422)


def test_excess_headers_are_refused(target: Target) -> None:
    host = ("Host", f"127.0.0.1:{target.port}")
    for flood in (
        [(f"X-{n}", "1") for n in range(10_000)],
        [("X-Long", "x" * 1_000_000)],
        [("Authorization", f"Bearer {'x' * 1_000_000}")],
        [("Cookie", "a=b; " * 100_000)],
    ):
        with wire(target.port) as connection:
            connection.send(request("GET", "/api/version", [host, *flood]))
            refused(target, connection.answer(), 400, 401)
            assert connection.is_closed(10)


def test_overlong_url_is_refused(target: Target) -> None:
    for path in ("/" + "x" * 1_000_000, "/api/workflow?" + "pools=x&" * 100_000, "/" + "a/" * 100_000):
        refused(target, target.ask("GET", path), 400)
    short = "/api/workflow?" + "&".join(["pools=x"] * 4000)
    refused(target, target.ask("GET", short, user=None), 401)


def test_endless_trailers_are_refused(target: Target) -> None:
    head = request("POST", SUBMIT, [*target.headers(), JSON, ("Transfer-Encoding", "chunked")])
    with wire(target.port) as connection:
        connection.send(head, b"0\r\n", *[b"X-Trailer: " + b"x" * 1000 + b"\r\n"] * 1000)
        refused(target, connection.answer(), 400, 422)
