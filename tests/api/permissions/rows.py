"""One good request for each route, and who may make it: a second opinion beside `domain.access`, written by hand."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from json import loads
from typing import Any, Literal

from tests.api.permissions.two_teams import CODE, SOURCE
from tests.worlds.code import manifest
from tests.worlds.service import one_task

GOOD, NOT_ALLOWED, NOT_THERE = 200, 403, 404

CLUSTER_FILE = "pools:\n- {name: fresh, quota: 0}\n"


@dataclass(frozen=True)
class Row:
    """*path*, and texts in *body*, have {pool}, {sub} (the short name of its subpool), {id} (of tom's work that runs) and {old} (that
    he cancelled).  *of*: what {id} is, if not that; "paused": its pool is."""

    path: str
    body: Any = None
    query: Mapping[str, Any] = field(default_factory=dict)
    of: Literal["runs", "waits", "held", "paused", "array"] = "runs"


ROWS: Mapping[str, Row] = {
    "DELETE /api/configs/pool/{name}": Row("/api/configs/pool/{pool}--{sub}"),
    "DELETE /api/configs/pool/{parent}/subpool/{subpool}": Row("/api/configs/pool/{pool}/subpool/{sub}"),
    "DELETE /api/auth/access_token/{name}": Row("/api/auth/access_token/spare"),
    "DELETE /api/auth/user/{user}": Row("/api/auth/user/uwe"),
    "DELETE /api/auth/user/{user}/access_token/{name}": Row("/api/auth/user/uwe/access_token/spare"),
    "DELETE /api/auth/user/{user}/roles/{role}": Row("/api/auth/user/tom/roles/osmo-team-user"),
    "GET /api/auth/access_token": Row("/api/auth/access_token"),
    "GET /api/auth/access_token/{name}/roles": Row("/api/auth/access_token/laptop/roles"),
    "GET /api/auth/user": Row("/api/auth/user"),
    "GET /api/auth/user/{user}": Row("/api/auth/user/uwe"),
    "GET /api/auth/user/{user}/access_token": Row("/api/auth/user/uwe/access_token"),
    "POST /api/auth/access_token/{name}": Row("/api/auth/access_token/another", None, {"expires_at": "2030-02-28"}),
    "POST /api/auth/user": Row("/api/auth/user", {"id": "eve"}),
    "POST /api/auth/user/{user}/access_token/{name}": Row(
        "/api/auth/user/uwe/access_token/another", None, {"expires_at": "2030-02-28"}
    ),
    "POST /api/auth/user/{user}/roles": Row("/api/auth/user/nina/roles", {"role_name": "osmo-team2-user"}),
    "DELETE /api/credentials/{name}": Row("/api/credentials/spare"),
    "DELETE /api/v1/credentials/{name}": Row("/api/v1/credentials/spare"),
    "GET /api/credentials": Row("/api/credentials"),
    "GET /api/v1/credentials": Row("/api/v1/credentials"),
    "GET /api/v1/credentials/{name}": Row("/api/v1/credentials/spare"),
    "POST /api/credentials/{name}": Row("/api/credentials/mine", {"generic_credential": {"credential": {"k": "v"}}}),
    "POST /api/v1/credentials:reseal": Row("/api/v1/credentials:reseal"),
    "PUT /api/v1/credentials/{name}": Row("/api/v1/credentials/mine", {"values": {"k": "v"}}),
    "GET /api/configs/backend": Row("/api/configs/backend"),
    "GET /api/configs/diff": Row(
        "/api/configs/diff", None, {"config_type": "POOL", "first_revision": 1, "second_revision": 1}
    ),
    "GET /api/configs/history": Row("/api/configs/history"),
    "GET /api/configs/role": Row("/api/configs/role"),
    "GET /api/configs/service": Row("/api/configs/service"),
    "GET /api/configs/workflow": Row("/api/configs/workflow"),
    "POST /api/configs/history/rollback": Row(
        "/api/configs/history/rollback", {"config_type": "POOL", "revision": 1, "description": "back"}
    ),
    "GET /api/app": Row("/api/app"),
    "GET /api/configs/pool": Row("/api/configs/pool"),
    "GET /api/configs/pool/{parent}/subpool": Row("/api/configs/pool/{pool}/subpool"),
    "GET /api/configs/pool/{parent}/subpool/{subpool}": Row("/api/configs/pool/{pool}/subpool/{sub}"),
    "GET /api/pool": Row("/api/pool"),
    "GET /api/pool_quota": Row("/api/pool_quota"),
    "GET /api/plugins/configs": Row("/api/plugins/configs"),
    "GET /api/profile/settings": Row("/api/profile/settings"),
    "GET /api/resources": Row("/api/resources"),
    "GET /api/resources/{name}": Row("/api/resources/n0"),
    "GET /api/tag": Row("/api/tag"),
    "GET /api/task": Row("/api/task"),
    "GET /api/version": Row("/api/version"),
    "GET /api/workflow": Row("/api/workflow", None, {"all_users": True}),
    "GET /api/workflow/{id}": Row("/api/workflow/{id}"),
    "GET /api/workflow/{id}/error_logs": Row("/api/workflow/{id}/error_logs"),
    "GET /api/workflow/{id}/events": Row("/api/workflow/{id}/events"),
    "GET /api/workflow/{id}/logs": Row("/api/workflow/{id}/logs"),
    "GET /api/workflow/{id}/spec": Row("/api/workflow/{id}/spec"),
    "GET /metrics": Row("/metrics"),
    "PATCH /api/configs/pool/{name}": Row("/api/configs/pool/{pool}", {"configs_dict": {"description": "ours"}}),
    "PUT /api/configs/pool": Row("/api/configs/pool", {"configs": {"team": {"description": "ours"}}}),
    "POST /api/configs/history/{config_type}/revision/{revision}/tags": Row(
        "/api/configs/history/POOL/revision/1/tags", {"set_tags": ["june"]}
    ),
    "PATCH /api/configs/pool/{parent}/subpool/{subpool}": Row("/api/configs/pool/{pool}/subpool/{sub}", {"quota": 2}),
    "POST /api/configs/pool/{parent}/subpool": Row("/api/configs/pool/{pool}/subpool", {"name": "fresh", "quota": 1}),
    "POST /api/pool/{pool}/workflow": Row("/api/pool/{pool}/workflow", {"file": one_task("x")}),
    "POST /api/pool/{pool}/workflow/{id}/restart": Row("/api/pool/{pool}/workflow/{old}/restart"),
    "POST /api/v1/workflows/{id}/tasks/{task}:exec": Row("/api/v1/workflows/{id}/tasks/main:exec", {"command": ["ls"]}),
    "POST /api/workflow/{id}/cancel": Row("/api/workflow/{id}/cancel"),
    "POST /api/workflow/{id}/exec/group/{group}": Row(
        "/api/workflow/{id}/exec/group/main-group", None, {"entry_command": "ls"}
    ),
    "GET /api/workflow/{id}/task/{task}": Row("/api/workflow/{id}/task/main"),
    "POST /api/workflow/{id}/exec/task/{task}": Row("/api/workflow/{id}/exec/task/main", None, {"entry_command": "ls"}),
    "POST /api/workflow/{id}/portforward/{task}": Row("/api/workflow/{id}/portforward/main", None, {"task_ports": 80}),
    "POST /api/workflow/{id}/rsync/task/{task}": Row("/api/workflow/{id}/rsync/task/main"),
    "POST /api/v1/workflows/{id}/tasks/{task}:port-forward": Row(
        "/api/v1/workflows/{id}/tasks/main:port-forward", {"port": 80}
    ),
    "POST /api/v1/workflows/{id}/tasks/{task}:rsync": Row("/api/v1/workflows/{id}/tasks/main:rsync"),
    "GET /api/v1/flavors": Row("/api/v1/flavors"),
    "DELETE /api/v1/cohorts/{name}": Row("/api/v1/cohorts/org", None, {"leave_children": True}),
    "DELETE /api/v1/pools/{name}": Row("/api/v1/pools/{pool}--{sub}"),
    "GET /api/v1/cohorts": Row("/api/v1/cohorts"),
    "GET /api/v1/cohorts/{name}": Row("/api/v1/cohorts/org"),
    "GET /api/v1/pools": Row("/api/v1/pools"),
    "GET /api/v1/pools/{name}": Row("/api/v1/pools/{pool}"),
    "GET /api/v1/pools/{name}/history": Row("/api/v1/pools/{pool}/history"),
    "GET /api/v1/pools/{name}/why": Row("/api/v1/pools/{pool}/why"),
    "GET /api/v1/pools/{name}/past": Row("/api/v1/pools/{pool}/past", None, {"at": "2027-01-15T08:00:10Z"}),
    "GET /api/v1/quota-tree": Row("/api/v1/quota-tree"),
    "PATCH /api/v1/cohorts/{name}": Row("/api/v1/cohorts/org", {"weight": 2}),
    "PATCH /api/v1/pools/{name}": Row("/api/v1/pools/{pool}", {"description": "ours"}),
    "POST /api/v1/cohorts": Row("/api/v1/cohorts", {"name": "fresh"}),
    "POST /api/v1/pools/{name}/close": Row("/api/v1/pools/{pool}/close", {"reason": "moves"}),
    "POST /api/v1/pools/{name}/open": Row("/api/v1/pools/{pool}/open"),
    "POST /api/v1/pools/{name}/pause": Row("/api/v1/pools/{pool}/pause", {"reason": "a check of the disks"}),
    "POST /api/v1/pools/{name}/resume": Row("/api/v1/pools/{pool}/resume", of="paused"),
    "POST /api/v1/pools": Row("/api/v1/pools", {"name": "fresh", "parent": "{pool}", "quota": 1}),
    "POST /api/workflow/{id}/tag": Row("/api/workflow/{id}/tag", None, {"add": "paper"}),
    "DELETE /api/v1/roles/{user}/{role}": Row("/api/v1/roles/tom/team-user"),
    "DELETE /api/v1/tokens/{name}": Row("/api/v1/tokens/spare"),
    "DELETE /api/v1/users/{user}/tokens/{name}": Row("/api/v1/users/uwe/tokens/spare"),
    "GET /api/v1/access-events": Row("/api/v1/access-events"),
    "GET /api/v1/cluster-file": Row("/api/v1/cluster-file"),
    "GET /api/v1/events": Row("/api/v1/events"),
    "GET /api/v1/usage": Row("/api/v1/usage", None, {"by": ["user", "pool"]}),
    "GET /api/v1/me": Row("/api/v1/me"),
    "PATCH /api/v1/me": Row("/api/v1/me", {"default_pool": None}),
    "GET /api/v1/limits": Row("/api/v1/limits"),
    "PATCH /api/v1/limits/users/{user}": Row("/api/v1/limits/users/uwe", {"gpus": 8}),
    "PATCH /api/v1/limits/pools/{name}": Row("/api/v1/limits/pools/{pool}", {"gpus": 8}),
    "GET /api/v1/me/notices": Row("/api/v1/me/notices"),
    "PUT /api/v1/me/notices": Row("/api/v1/me/notices", {"to": "https://hooks.example.org/x", "when": ["fail"]}),
    "DELETE /api/v1/me/notices": Row("/api/v1/me/notices"),
    "POST /api/v1/me/notices:test": Row("/api/v1/me/notices:test"),
    "GET /api/v1/nodes": Row("/api/v1/nodes"),
    "GET /api/v1/nodes/{name}": Row("/api/v1/nodes/n0"),
    "GET /api/v1/roles": Row("/api/v1/roles"),
    "GET /api/v1/roles/{user}/{role}": Row("/api/v1/roles/tom/team-user"),
    "GET /api/v1/tokens": Row("/api/v1/tokens"),
    "GET /api/v1/tokens/{name}": Row("/api/v1/tokens/laptop"),
    "PATCH /api/v1/tokens/{name}": Row("/api/v1/tokens/spare", {"description": "mine"}),
    "GET /api/v1/users/{user}/tokens/{name}": Row("/api/v1/users/uwe/tokens/laptop"),
    "PATCH /api/v1/users/{user}/tokens/{name}": Row("/api/v1/users/uwe/tokens/spare", {"description": "yours"}),
    "GET /api/v1/topology": Row("/api/v1/topology"),
    "GET /api/v1/users": Row("/api/v1/users"),
    "GET /api/v1/users/{name}": Row("/api/v1/users/uwe"),
    "GET /api/v1/users/{user}/tokens": Row("/api/v1/users/uwe/tokens"),
    "GET /api/v1/version": Row("/api/v1/version"),
    "GET /api/v1/workflow-tags": Row("/api/v1/workflow-tags"),
    "PATCH /api/v1/workflows/{id}/tags": Row("/api/v1/workflows/{id}/tags", {"add": ["paper"]}),
    "GET /api/v1/workflows": Row("/api/v1/workflows", None, {"why": True}),
    "GET /api/v1/workflows/{id}": Row("/api/v1/workflows/{id}"),
    "GET /api/v1/workflows/{id}/code": Row("/api/v1/workflows/{id}/code"),
    "HEAD /api/v1/code/{id}": Row(f"/api/v1/code/{CODE.id}"),
    "POST /api/v1/code": Row("/api/v1/code", loads(manifest({"again.py": SOURCE}).written())),
    "GET /api/v1/workflows/{id}/events": Row("/api/v1/workflows/{id}/events"),
    "GET /api/v1/workflows/{id}/changes": Row("/api/v1/workflows/{id}/changes", None, {"by": "all"}),
    "GET /api/v1/workflows/{id}/gpu-use": Row("/api/v1/workflows/{id}/gpu-use"),
    "GET /api/v1/workflows/{id}/gpu-history": Row("/api/v1/workflows/{id}/gpu-history"),
    "GET /api/v1/workflows/{id}/logs": Row("/api/v1/workflows/{id}/logs"),
    "GET /api/v1/workflows/{id}/spec": Row("/api/v1/workflows/{id}/spec"),
    "GET /api/v1/workflows/{id}/wait": Row("/api/v1/workflows/{id}/wait", None, {"timeout": 0}),
    "GET /api/v1/workflows/{id}/why": Row("/api/v1/workflows/{id}/why", None, {"changes": "all"}),
    "PATCH /api/v1/users/{name}": Row("/api/v1/users/uwe", {"disabled": True}),
    "POST /api/v1/apply": Row("/api/v1/apply", {"file": CLUSTER_FILE}),
    "POST /api/v1/browser-codes": Row("/api/v1/browser-codes"),
    "POST /api/v1/clock/accept": Row("/api/v1/clock/accept"),
    "POST /api/v1/nodes:cordon": Row("/api/v1/nodes:cordon", {"nodes": ["n0"]}),
    "POST /api/v1/nodes:drain": Row("/api/v1/nodes:drain", {"nodes": ["n0"]}),
    "POST /api/v1/nodes:uncordon": Row("/api/v1/nodes:uncordon", {"nodes": ["n0"]}),
    "POST /api/v1/plan": Row("/api/v1/plan", {"pool": "{pool}--{sub}", "quota": 1}),
    "POST /api/v1/roles": Row("/api/v1/roles", {"user": "nina", "role": "team2-user"}),
    "POST /api/v1/tokens": Row("/api/v1/tokens", {"name": "another"}),
    "POST /api/v1/users": Row("/api/v1/users", {"name": "eve"}),
    "POST /api/v1/users/{user}/tokens": Row("/api/v1/users/uwe/tokens", {"name": "another"}),
    "POST /api/v1/workflows": Row("/api/v1/workflows", {"pool": "{pool}", "file": one_task("x")}),
    "POST /api/v1/workflows/{id}/attach": Row("/api/v1/workflows/{id}/attach"),
    "POST /api/v1/workflows/{id}/cancel": Row("/api/v1/workflows/{id}/cancel", {}),
    "POST /api/v1/workflows/{id}/array": Row("/api/v1/workflows/{id}/array", {"most": 2}, of="array"),
    "POST /api/v1/workflows/{id}/elements/{element}/cancel": Row(
        "/api/v1/workflows/{id}/elements/0/cancel", {}, of="array"
    ),
    "POST /api/v1/workflows/{id}/hold": Row("/api/v1/workflows/{id}/hold", of="waits"),
    "POST /api/v1/workflows/{id}/reassign": Row("/api/v1/workflows/{id}/reassign", {"priority": "LOW"}, of="waits"),
    "POST /api/v1/workflows/{id}/release": Row("/api/v1/workflows/{id}/release", of="held"),
    "POST /api/v1/workflows/{id}/repeat": Row(
        "/api/v1/workflows/{old}/repeat", {"pool": "{pool}", "failed_only": True}
    ),
    "POST /api/v1/workflows:batch": Row(
        "/api/v1/workflows:batch", {"pool": "{pool}", "workflows": [{"file": one_task("x")}]}
    ),
    "POST /api/v1/workflows:check": Row("/api/v1/workflows:check", {"pool": "{pool}", "file": one_task("x")}),
    "POST /api/v1/workflows:render": Row("/api/v1/workflows:render", {"pool": "{pool}", "file": one_task("x")}),
    "POST /api/profile/settings": Row("/api/profile/settings", {"email_notification": True}),
    "PUT /api/configs/pool/{parent}/subpool/{subpool}": Row("/api/configs/pool/{pool}/subpool/{sub}", {"quota": 2}),
}

EVERYBODY = ("ada", "vera", "tina", "tom", "tess", "uwe", "nina")

_ALL = dict.fromkeys(EVERYBODY, GOOD)
_ADMIN = {**dict.fromkeys(EVERYBODY, NOT_ALLOWED), "ada": GOOD}
_READ = {**_ALL, "uwe": NOT_THERE, "nina": NOT_THERE}
_OF_ITS_ADMIN = {**_READ, "vera": NOT_ALLOWED, "tom": NOT_ALLOWED, "tess": NOT_ALLOWED}

ENDLESS = ("GET /api/v1/events/stream",)
"""Routes whose good answer does not end."""

OUTCOMES: Mapping[str, Mapping[str, int]] = {
    "connect": _ALL,
    "list pools": _ALL,
    "own tokens": _ALL,
    "own credentials": _ALL,
    "change own": _ALL,
    "read cluster": {**_ALL, "nina": NOT_ALLOWED},
    "read everything": {**_ADMIN, "vera": GOOD},
    "read pool": _READ,
    "read workflow": _READ,
    "submit": {**_READ, "vera": NOT_ALLOWED},
    "send code": {**_ALL, "vera": NOT_ALLOWED, "nina": NOT_ALLOWED},
    "exec workflow": {**_READ, "vera": NOT_ALLOWED, "tess": NOT_ALLOWED},
    "change workflow": {**_READ, "vera": NOT_ALLOWED, "tess": NOT_ALLOWED},
    "submit and change workflow": {**_READ, "vera": NOT_ALLOWED, "tess": NOT_ALLOWED},
    "change subpools": _OF_ITS_ADMIN,
    "change pool": _OF_ITS_ADMIN,
    "change cluster (a subpool: change subpools)": _OF_ITS_ADMIN,
    "change cluster": _ADMIN,
    "access": _ADMIN,
}
"""The users who may call a route, by the need that the document states, for a request about `team` and tom's work in it."""

NOT_SEEN: Mapping[str, tuple[str, int]] = {
    "/api/v1/cohorts/org": ("uwe", NOT_THERE),  # contains only pools of other users
    "/api/configs/diff": ("nina", NOT_THERE),  # no revision concerns a pool that she can see
}
"""Where somebody may ask, and what is asked for is not seen: who, and what is answered."""
