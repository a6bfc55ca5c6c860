"""Environments and files of workflows, and tokens: in no log, no event, and no table but those that are made for them."""

from pathlib import Path

from tests.attack.target import CANARY, TREASURE, Target, serve

SPILLS = (
    (
        "POST",
        f"/api/pool/team/workflow?env_vars=PASSWORD%3D{CANARY}",
        {"file": TREASURE.replace("treasure", "spilled")},
    ),
    ("POST", f"/api/pool/team/workflow?env_vars={CANARY}", {"file": TREASURE}),
    ("POST", f"/api/pool/nowhere/workflow?env_vars=PASSWORD%3D{CANARY}", {"file": TREASURE}),
    ("POST", f"/api/pool/team/workflow?priority={CANARY}", {"file": TREASURE}),
    ("POST", f"/api/pool/team/workflow?env_vars=PASSWORD%3D{CANARY}&dry_run=true", {"file": TREASURE}),
    ("POST", "/api/pool/team/workflow", {"file": TREASURE, "unknown": CANARY}),
    ("POST", "/api/pool/team/workflow", {"file": TREASURE.replace("PASSWORD:", "1PASS WORD:")}),
    ("POST", "/api/pool/team/workflow", {"file": TREASURE.replace("gpu: 1", "gpu: 1000")}),
    ("POST", "/api/pool/team/workflow", {"file": TREASURE.replace(CANARY, f"{{{{ {CANARY} }}}}")}),
    ("POST", "/api/pool/team/workflow", {"file": TREASURE.replace(CANARY, f"{{{{ '{CANARY}' | nothing }}}}")}),
    ("POST", "/api/pool/team/workflow", {"file": f"{TREASURE}\n  - {CANARY}: ["}),
    ("POST", "/api/pool/team/workflow", {"file": TREASURE, "set_variables": [f"password={CANARY}"]}),
    ("POST", "/api/v1/workflows:render", {"file": TREASURE}),
    ("POST", "/api/v1/apply", {"file": f"pools: [{{name: team, description: {CANARY}, unknown: 1}}]"}),
    ("GET", f"/api/workflow?name={CANARY}", None),
    ("POST", "/api/pool/team2/workflow/treasure-1/restart", None),
    ("POST", "/api/pool/team2/workflow?workflow_id=treasure-1", None),
    ("POST", "/api/workflow/treasure-1/cancel", None),
)


def test_secrets_of_a_workflow_stay_in_its_specification(tmp_path: Path) -> None:
    with serve(tmp_path) as target:
        for method, path, body in SPILLS:
            assert target.ask(method, path, body=body).status < 500, (method, path)
        target.ok("GET", "/api/v1/workflows/treasure-1/wait?timeout=120")
        ours = (f"/api/v1/workflows/treasure-1{end}" for end in ("", "/events", "/why", "/logs"))
        others = (f"/api/workflow/treasure-1{end}" for end in ("", "/events", "/logs"))
        lists = ("/api/v1/workflows", "/api/v1/nodes", "/api/workflow?all_users=true", "/metrics", "/api/resources")
        told = [target.ask("GET", path) for path in (*ours, *others, *lists)]
        assert [each.status for each in told] == [200] * len(told)
        assert [each.body for each in told if CANARY.encode() in each.body] == []
        _check_rests(target, tmp_path)


def _check_rests(target: Target, folder: Path) -> None:
    log = target.log.read_text() + (folder / "stderr").read_text()
    assert [line for line in log.splitlines() if "level=ERROR" in line or "Traceback" in line] == []
    assert [secret for secret in target.secrets() if secret in log] == []
    stored = target.portrait(volatile=True)
    holding = {name for name, rows in stored.items() if CANARY in repr(rows)}
    assert holding <= {"specifications"}
    assert [name for name, rows in stored.items() if any(token in repr(rows) for token in target.tokens.values())] == []
