"""Templates run in a real child process, with real limits."""

import sys
from typing import Any

import pytest

from runrig.domain.errors import InvalidInput, Unavailable
from runrig.spec.template import check_settings, is_template, render
from tests.spec.files import problems

RAW = ". To use {{, {% or {# as plain text, wrap it in {% raw %} and {% endraw %}."


def test_plain_file_starts_no_process_and_is_returned_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    text = "# {{ not looked at }}\nworkflow: {args: ['{{output}}', '{{host:a-0}}', '{{input:1}}']}\n"
    assert not is_template("{{output}}{{uuid}}{{index}}")
    assert render(text.partition("\n")[2]) == text.partition("\n")[2]
    with pytest.raises(Unavailable, match="Try again"):
        render("{{ 1 }}")


def test_settings_override_defaults_and_strings_override_numbers() -> None:
    text = "default-values:\n  a: 1\n  b: 2\n  c: 3\nworkflow: {{ [a, b + 1, c, d] }}\n"
    assert render(text, ["b=20", "c=30", "d=0.5"], ["c=030"]) == "\n\n\n\nworkflow: [1, 21, '030', 0.5]\n"


@pytest.mark.parametrize(
    ("setting", "value"),
    [("x=1", "1"), ("x=1.5", "1.5"), ("x=1e2", "100.0"), ("x=a=b", "'a=b'"), ("x=", "''"), ("x=nan", "'nan'"), ("x=1_0", "'1_0'")],
)  # fmt: skip
def test_a_setting_is_a_number_if_it_can_be_one(setting: str, value: str) -> None:
    assert render("{{ [x] }}", [setting]) == f"[{value}]"


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("default-values: {gpus: 8, name: a}\nworkflow: [{{ gpus }}]\n", "Did you mean 'gpus'?"),
        ("workflow: [{{ gpus }}]\n", "Did you mean 'gpus'?"),
        ("default-values: {a: 1, b: 2}\nworkflow: [{{ a }}]\n", "Use one of a, b"),
        ("default-values: {gpus: 8}\nworkflow: [8]\n", "Did you mean 'gpus'?"),
        ("workflow: [8]\n", "None is defined"),
    ],
)
def test_unused_setting_is_refused(text: str, advice: str) -> None:
    given = ["gpus=4"] if "{{ gpus" in text else []
    with pytest.raises(InvalidInput) as raised:
        render(text, [*given, "gpsu=1"])
    assert raised.value.message == f"this file has no variable 'gpsu'. {advice}"


def test_setting_may_be_used_only_in_a_default_or_a_test() -> None:
    text = "default-values: {unused: 1}\nworkflow: {{ 'debug' if debug is defined else 'plain' }}\n"
    assert render(text, ["unused=2"]) == "\nworkflow: plain\n"
    assert render(text, ["debug=1"]) == "\nworkflow: debug\n"


@pytest.mark.parametrize(
    ("template", "known"),
    [
        ("default-values: {gpus: 8}\nworkflow: [{{ gpus }}, {{ word }}]\n", ["gpus=2", "word=x"]),
        ("workflow: [{{ gpus }}]\n", ["gpus=2"]),
        ("default-values: {unused: 1}\nworkflow: ['{{output}}']\n", ["unused=2"]),
        ("workflow: {{ 1 if debug is defined else 2 }} {% for n in range(n_max) %}{{ n }}{% endfor %}\n", ["debug=1", "n_max=3"]),
        ("# {{ at_the_top }}\nworkflow: {% raw %}{{ verbatim }}{% endraw %} {{ x }}\n", ["x=1"]),
        ("workflow: {{ 1 // 0 }} {{ x }}\n", ["x=1"]),
    ],
)  # fmt: skip
def test_settings_are_checked_against_a_template_that_is_not_rendered(template: str, known: list[str]) -> None:
    check_settings(template, known)
    check_settings(template, (), known)
    for unknown in ("gpsu=1", "n=1", "verbatim=1", "at_the_top=1"):
        with pytest.raises(InvalidInput, match="this file has no variable"):
            check_settings(template, [*known, unknown])


def test_unreadable_template_has_no_settings() -> None:
    with pytest.raises(InvalidInput, match="the template cannot be rendered: Expected an expression"):
        check_settings("workflow: {% for %}", ["x=1"])
    check_settings("workflow: {% for %}")


def test_defaults_may_be_anywhere_and_contain_anything() -> None:
    text = (
        "version: 2\ndefault-values:\n  # what to use\n  box: {gpu: 2}\n\n  names: [a, b]\n# the end\n"
        "workflow: {{ box }} {{ names|join('-') }}\n"
    )
    assert render(text) == "version: 2\n\n\n\n\n\n\nworkflow: {'gpu': 2} a-b\n"


def test_tokens_survive_and_leading_comments_are_not_a_template() -> None:
    text = "# {{ anything }} {% goes %}\n\nworkflow: {% if true %}{{output}} {{host:a_b}} {{ 'x' }}{% endif %}\n"
    assert render(text) == "# {{ anything }} {% goes %}\n\nworkflow: {{output}} {{host:a_b}} x\n"


def test_loops_create_tasks() -> None:
    text = "tasks:\n{% for i in range(3) %}- t{{ i }}\n{% endfor %}"
    assert render(text) == "tasks:\n- t0\n- t1\n- t2\n"


BROKEN = [
    ("undefined", "a: 1\nb: {{ gpus }}", 2, "'gpus' is undefined. Set it with --set NAME=VALUE, or under default-values."),
    ("syntax", "a: 1\nb: {% for %}", 2, "Expected an expression, got 'end of statement block'" + RAW),
    ("no template", "a: |\n  echo ${#list[@]}", 2, "Missing end of comment tag" + RAW),
    ("spaced token", "a: {{ output }}", 1, "'output' is undefined. Set it with --set NAME=VALUE, or under default-values."),
    ("raises", "a:\n\n  {{ 1 // 0 }}", 3, "ZeroDivisionError: integer division or modulo by zero"),
    ("underscores", "{{ ''.__class__ }}", 1, "access to attribute '__class__' of 'str' object is unsafe"),
    ("files", "{% include '/etc/passwd' %}", 1, "TypeError: no loader for this environment specified"),
    ("memory", "{{ 'a' * 10**10 }}", None, "it needs more than 100 MiB of memory"),
    ("output", "{% for i in range(2000) %}{{ 'a' * 1000 }}{% endfor %}", None, "the result is longer than 1,048,576 characters"),
    ("recursion", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", None, "it is nested too deeply"),
    (
        "for ever",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        None,
        "it took longer than 0.5 s. Check it for endless loops.",
    ),
    ("a number without end", "{{ 7 ** (7 ** 77) }}", None, "it took longer than 0.5 s. Check it for endless loops."),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "why"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_failing_template_is_one_clear_problem(text: str, line: int | None, why: str) -> None:
    assert problems(render, text) == [(line, None, f"the template cannot be rendered: {why}")]


@pytest.mark.parametrize("setting", ["x", "=1", "a-b=1", ""])
def test_invalid_setting_is_refused(setting: str) -> None:
    message = f"{setting!r} does not set a variable. Use --set NAME=VALUE"
    assert problems(lambda text: render(text, [setting]), "a: 1") == [(None, None, message)]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("a: 1\ndefault-values: 3\n", (2, None, "default-values: expected a mapping of names to values")),
        ("default-values: {a: 1}\ndefault-values: {a: 2}\n", (2, None, "default-values is defined twice. Keep one.")),
        ("w: 1\ndefault-values:\n  a: 1\n  a: 2\n", (4, 3, "the key 'a' is defined twice; first on line 3")),
    ],
)
def test_unreadable_default_values_are_refused_with_their_line(text: str, wrong: tuple[Any, ...]) -> None:
    assert problems(render, text) == [wrong]
