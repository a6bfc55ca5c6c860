"""Values of variables and contents of files: in the specification, and nowhere else."""

import logging
import re
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from runrig.domain.gangs import Priority
from runrig.spec.masked import masked
from runrig.store import schema
from tests.api.document import document
from tests.api.permissions.rows import ROWS
from tests.api.permissions.test_routes import QUESTIONS
from tests.api.permissions.two_teams import CANARY, TwoTeams, two_teams

TEMPLATE = f"""\
# {CANARY} in a comment
workflow:
  name: {{{{name}}}}
  labels: {{team: ours}}
  tasks:
  - name: main
    image: any
    command: [run, '--fast']
    duration: 50
    environment:
      API_KEY: {CANARY}
      DEBUG: "1"
    files:
    - path: /etc/key.pem
      contents: |
        {CANARY}
        more
    resource: one
  resources:
    one: {{gpu: 1}}
default-values:
  name: secretive
  unused: {CANARY}
"""
MASKED = """\
# The values of variables and the contents of files are shown to the owner and to admins of the pool.
workflow:
  name: secretive
  labels:
    team: ours
  tasks:
  - name: main
    image: any
    command:
    - run
    - --fast
    duration: 50
    environment:
      API_KEY: (hidden)
      DEBUG: (hidden)
    files:
    - path: /etc/key.pem
      contents: (hidden)
    resource: one
  resources:
    one:
      gpu: 1
"""


def _submit(it: TwoTeams, *, environment: str = f"FROM_COMMAND={CANARY}", **query: Any) -> str:
    answer = it.send("tom", "POST", "/api/pool/team/workflow", {"file": TEMPLATE}, env_vars=[environment], **query)
    assert answer.status_code == 200, answer.text
    it.api.desk.later(0)
    return str(answer.json()["name"])


def _kept(url: str) -> dict[str, str]:
    """All rows of all tables, as text, but for the specifications."""
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    try:
        with engine.connect() as connection:
            names = set(sa.inspect(connection).get_table_names()) - {schema.specifications.name}
            return {name: repr(connection.execute(sa.text(f'SELECT * FROM "{name}"')).all()) for name in names}
    finally:
        engine.dispose()


def test_secret_is_only_in_the_table_of_specifications_and_in_no_log_or_response(
    tmp_path: Path, any_store: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A whole life: submitted, checked, rendered, run, preempted, cancelled, repeated; read by everybody."""
    caplog.set_level(logging.DEBUG)
    with two_teams(tmp_path, database=any_store) as it:
        id = _submit(it, priority="LOW")
        _submit(it, validation_only=True)
        for actor in ("tess", "vera"):
            it.send(actor, "POST", "/api/pool/team/workflow", {"file": TEMPLATE}, env_vars=[f"A={CANARY}"])
        it.submit("tom", "more", "team", priority=Priority.LOW, gpus=5)
        it.submit("uwe", "firm", "team2--b")
        it.api.desk.later(31)
        it.send("tom", "POST", f"/api/workflow/{id}/cancel", None, message="no more of it")
        it.api.desk.later(31)
        it.send("tom", "POST", f"/api/pool/team/workflow/{id}/restart")
        it.api.desk.later(60)
        texts = _kept(any_store)
        for actor in ("ada", "tina", "tom", "tess", "vera"):
            for route in QUESTIONS:
                row = ROWS[route]
                answer = it.send(actor, "GET", row.path.format(pool="team", sub="a", id=id, old=id), **row.query)
                if answer.status_code == 200 and not row.path.endswith("/spec"):
                    texts[f"{actor} {route}"] = answer.text
        texts["document"] = str(document())
        texts["metrics"] = str(it.api.desk.service.metrics.text())
    texts["log"] = _logged(caplog)
    assert len(texts) > 130
    assert [name for name, text in texts.items() if CANARY in text] == []


def _logged(caplog: pytest.LogCaptureFixture) -> str:
    """What the server wrote: the client of the test runs in the same process, and logs the addresses that it calls."""
    formatter = logging.Formatter()
    records = [each for each in caplog.records if not each.name.startswith(("httpx", "httpcore"))]
    return "\n".join(formatter.format(each) for each in records)


def test_no_response_contains_a_token_a_hash_or_a_sealed_value(tmp_path: Path) -> None:
    with two_teams(tmp_path) as it:
        rows = it.api.desk.store.access.load()
        secrets = {CANARY, *it.tokens.values()}
        secrets |= {each.hash for each in rows.tokens} | {each.sealed for each in rows.credentials}
        assert len(secrets) == 1 + 3 * len(it.tokens)
        for route in QUESTIONS:
            path = ROWS[route].path.format(pool="team", sub="a", id=it.work["team"], old=it.old["team"])
            text = it.send("ada", "GET", path, **ROWS[route].query).text
            assert path.endswith("/spec") or not any(secret in text for secret in secrets), route


HANDED_OUT = {
    *("TokenMade.token", "ExchangeAnswer.token", "BrowserCode.code", "Session.key", "RouterAnswer.key"),
    *("SignedIn.token", "SignedIn.refresh_token", "OAuthTokenAnswer.id_token", "OAuthTokenAnswer.refresh_token"),
    *("DeviceStarted.device_code", "DeviceStarted.user_code", "DeviceAnswer.device_code", "DeviceAnswer.user_code"),
    "NoticeSettings.secret",
}
"""Each is what somebody asked for: a token, a code or a key of their own."""
NO_SECRETS = {
    *("Me.token", "ProfileAnswer.token", "VersionAnswer.hash", "RouterAnswer.cookie"),
    *("ReasonAnswer.code", "WorkflowHeadline.code", "ProblemDetails.code", "LevelAnswer.key", "Taint.key"),
    *("TopologyKeyModel.key", "Workflow.code"),
}
"""A token by name, a commit, words, labels of nodes, and an id; the cookie is always empty."""


def test_only_responses_that_hand_out_a_secret_have_a_field_for_it() -> None:
    schemas = document()["components"]["schemas"]
    answers = re.findall(
        r"schemas/(\w+)", str([each["responses"] for path in document()["paths"].values() for each in path.values()])
    )
    for name in answers:
        answers.extend(set(re.findall(r"schemas/(\w+)", str(schemas[name]))) - set(answers))
    secret = re.compile(
        "hash|sealed|secret|password|cookie|nonce|key|code|(id_|access_|refresh_|.*user_|device_)?(token|code)"
    )
    fields = {
        f"{name}.{field}"
        for name in answers
        for field in schemas[name].get("properties", ())
        if secret.fullmatch(field)
    }
    assert fields == HANDED_OUT | NO_SECRETS


def test_only_the_owner_and_admins_of_the_pool_can_read_file_contents(tmp_path: Path) -> None:
    with two_teams(tmp_path) as it:
        id = _submit(it)
        for actor in ("ada", "tina", "tom"):
            assert CANARY in it.get(actor, f"/api/workflow/{id}/spec")
            assert it.get(actor, f"/api/workflow/{id}/spec", use_template=True) == TEMPLATE
        for actor in ("vera", "tess"):
            assert it.get(actor, f"/api/workflow/{id}/spec") == MASKED
            refused = it.send(actor, "GET", f"/api/workflow/{id}/spec", use_template=True)
            assert (refused.status_code, refused.json()["message"]) == (
                403,
                f"the template of {id} may contain secrets, so only its owner and the pool's admins can see it. "
                "Omit use_template to see the file without secrets",
            )
        assert it.send("uwe", "GET", f"/api/workflow/{id}/spec").status_code == 404


def test_aliases_merge_keys_and_unusual_positions_are_masked_too() -> None:
    text = f"""
workflow:
  name: odd
  groups:
  - name: g
    tasks:
    - name: one
      environment: &shared {{A: {CANARY}, B: 7}}
      files: [{{path: /x, contents: &text {CANARY}}}, {{contents: *text, base64: true, path: /y}}]
    - name: two
      environment: {{<<: *shared, C: "{CANARY} {CANARY}"}}
    - {{name: three, environment: *shared}}
"""
    hidden = masked(text)
    assert CANARY not in hidden
    assert (hidden.count("(hidden)"), hidden.count("A: (hidden)")) == (9, 3)


@pytest.mark.parametrize("table", ["specifications", "workflows", "events"])
def test_error_of_a_failing_database_does_not_contain_the_data(
    tmp_path: Path, any_store: str, caplog: pytest.LogCaptureFixture, table: str
) -> None:
    caplog.set_level(logging.DEBUG)
    with two_teams(tmp_path, database=any_store) as it:
        _break(any_store, table)
        before = it.portrait()
        answer = it.send("tom", "POST", "/api/pool/team/workflow", {"file": TEMPLATE}, env_vars=[f"A={CANARY}"])
        assert answer.status_code == 500, answer.text
        assert it.portrait() == before
        assert CANARY not in answer.text
    assert "event=request_failed" in _logged(caplog)
    assert CANARY not in _logged(caplog)


def _break(url: str, table: str) -> None:
    """So that the next row of *table* is refused, in the way that tells most of it."""
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql(f"ALTER TABLE {table} ADD CONSTRAINT none_more CHECK (false) NOT VALID")
        else:
            connection.exec_driver_sql(
                f"CREATE TRIGGER none_more BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'none more'); END"
            )
    engine.dispose()


@pytest.mark.parametrize(
    "environment", [f"NO-NAME {CANARY}=x", f"A=x\0{CANARY}", f"1A={CANARY}"], ids=["space", "nul", "digit"]
)
def test_invalid_variable_is_refused_and_its_value_is_never_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, environment: str
) -> None:
    caplog.set_level(logging.DEBUG)
    with two_teams(tmp_path) as it:
        answer = it.send("tom", "POST", "/api/pool/team/workflow", {"file": TEMPLATE}, env_vars=[environment])
        assert answer.status_code == 422, answer.text
        value = environment.partition("=")[2]
        assert value.strip("\0x") not in answer.text or value == "x"
    assert CANARY not in _logged(caplog)
