"""Workflows."""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from runrig.cli.printed.addresses import page
from runrig.cli.printed.times import naive
from runrig.domain.workflow_status import WorkflowStatus, without_number

Answer = Mapping[str, Any]

_NOT_HERE = dict.fromkeys(("dashboard_url", "grafana_url", "app_owner", "app_name", "app_version"))
_NO_STEPS = dict.fromkeys(("processing_start_time", "initializing_start_time"))
"""Fields of the reference client that are always null here."""


def _link(url: str, id: str, rest: str = "", **query: object) -> str:
    """The address of the workflow *id*, or of a part of it, at the server *url*."""
    return f"{url}/api/v1/workflows/{quote(id)}{rest}" + (f"?{urlencode(query)}" if query else "")


def submitted(answer: Answer, url: str) -> dict[str, Any]:
    return _accepted(answer["id"], answer["warnings"]) | _where(answer["id"], url)


def rendered(answer: Answer) -> dict[str, Any]:
    """Returns the answer to a dry run."""
    return _accepted(answer["id"], answer["warnings"]) | {"spec": answer["file"], "verdict": answer["verdict"]}


def validated(answer: Answer) -> dict[str, Any]:
    return _accepted(answer["id"], answer["warnings"]) | {"logs": f"{without_number(answer['id'])} would be accepted"}


def _accepted(id: str, warnings: list[str]) -> dict[str, Any]:
    return {"name": id, "overview": None, "logs": None, "spec": None, "warnings": warnings, "dashboard_url": None}


def _where(id: str, url: str) -> dict[str, Any]:
    return {"overview": page(url, "workflow", id), "logs": _link(url, id, "/logs")}


def one_of_many(outcome: Answer, url: str) -> dict[str, Any]:
    """Returns the outcome of one file of several that was submitted."""
    return {"name": outcome["id"], **_where(outcome["id"], url), "warnings": outcome["warnings"]}


def listed(entry: Answer, url: str) -> dict[str, Any]:
    id = entry["id"]
    return {
        "user": entry["submitted_by"],
        "name": id,
        "workflow_uuid": entry["uuid"],
        **_times(entry),
        "times": entry["times"],
        "queued_time": entry["queued_s"],
        "duration": entry["duration_s"],
        "status": entry["status"],
        **_where(id, url),
        "error_logs": _link(url, id, "/logs", stream="stderr"),
        **_NOT_HERE,
        **{
            name: entry[name]
            for name in ("pool", "priority", "labels", "gpus", "gpus_asked", "node", "nodes", "why", "held_by")
        },
    }


def _times(answer: Answer) -> dict[str, str | None]:
    return {
        name: naive(answer[name]) for name in ("submit_time", "start_time", "end_time", "held_since") if name in answer
    }


def workflow(answer: Answer, url: str) -> dict[str, Any]:
    """With its groups and tasks."""
    id = answer["id"]
    done = {group["name"] for group in answer["groups"] if group["status"] == WorkflowStatus.COMPLETED.value}
    return {
        "name": id,
        **{name: answer[name] for name in ("uuid", "submitted_by", "cancelled_by")},
        "spec": _link(url, id, "/spec"),
        "template_spec": _link(url, id, "/spec", template="true"),
        "logs": _link(url, id, "/logs"),
        "events": _link(url, id, "/events"),
        "overview": page(url, "workflow", id),
        "parent_name": answer["repeats"],
        "parent_job_id": None,
        **_NOT_HERE,
        "tags": answer["tags"],
        **_times(answer),
        "exec_timeout": answer["exec_timeout_s"],
        "queue_timeout": answer["queue_timeout_s"],
        "times": answer["times"],
        "duration": answer["duration_s"],
        "queued_time": answer["queued_s"],
        "status": answer["status"],
        "outputs": "",
        "groups": [_group(group, done, id, url) for group in answer["groups"]],
        "plugins": {"rsync": False},
        "warnings": answer["warnings"],
        **{name: answer[name] for name in ("pool", "backend", "priority", "labels", "held_by")},
        "failure_message": answer["message"] or None,
        "cause": answer["cause"],
    }


def _group(group: Answer, done: set[str], id: str, url: str) -> dict[str, Any]:
    """*done*: the groups of the workflow *id* that are COMPLETED."""
    return {
        "name": group["name"],
        "status": group["status"],
        **_times(group),
        **_NO_STEPS,
        "scheduling_start_time": naive(group["queued_time"]),
        "remaining_upstream_groups": [name for name in group["upstream"] if name not in done],
        "downstream_groups": group["downstream"],
        "failure_message": group["message"] or None,
        "tasks": [_task(task, id, url) for task in group["tasks"]],
        **{name: group[name] for name in ("attempt", "preemptions", "pods")},
    }


def _task(task: Answer, id: str, url: str) -> dict[str, Any]:
    name, attempt = task["name"], task["attempt"]
    which = {"task": name, "attempt": attempt}
    return {
        "name": name,
        "retry_id": attempt,
        "status": task["status"],
        "failure_message": task["message"] or None,
        "exit_code": task["exit_code"],
        "logs": _link(url, id, "/logs", **which),
        "error_logs": _link(url, id, "/logs", stream="stderr", **which),
        "events": _link(url, id, "/events"),
        **_times(task),
        **_NO_STEPS,
        "scheduling_start_time": None,
        "input_download_start_time": None,
        "input_download_end_time": None,
        "output_upload_start_time": None,
        "dashboard_url": None,
        "pod_name": f"{id}-{name}-{attempt}",
        "pod_ip": None,
        "task_uuid": task["uuid"],
        "node_name": task["node"],
        "lead": task["lead"],
        "gpus": task["gpus"],
    }


def events(found: Iterable[Answer]) -> list[dict[str, Any]]:
    """*law* null: what a program of the cluster noted."""
    return [
        {**each, "time": naive(each["time"]), "law": None if each["revision"] is None else each["law"]}
        for each in found
    ]


def why(answer: Answer) -> dict[str, Any]:
    ending, standstill = answer["ending"], answer["standstill"]
    return {
        "workflow": answer["id"],
        "status": answer["status"],
        "groups": [
            {**group, "preempted": [{**each, "at": naive(each["at"])} for each in group["preempted"]]}
            for group in answer["groups"]
        ],
        "sentence": answer["sentence"],
        "cause": answer["cause"],
        "ending": ending and {**ending, "at": naive(ending["at"])},
        "standstill": standstill and {**standstill, "since": naive(standstill["since"])},
        "changes": answer["changes"],
    }
