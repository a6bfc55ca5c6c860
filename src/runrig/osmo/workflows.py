"""Workflows."""

from collections.abc import Sequence

from runrig.domain.workflow_status import WorkflowStatus, without_number
from runrig.osmo.shape import Answer, Links, Shape, naive, times

_NO_APP = dict.fromkeys(("app_owner", "app_name", "app_version"))
_NO_STEPS = dict.fromkeys(("processing_start_time", "scheduling_start_time", "initializing_start_time"))
"""Fields that are always null here, but for the time of a group in the queue."""


def links(base: str) -> Links:
    """Where the osmo API of the server *base* has workflows."""
    return Links(base, "/api/workflow/", "?use_template=True", "/error_logs", "task_name", "retry_id")


# ---------------------------------------------------------------- submitted


def submitted(answer: Answer, links: Links) -> Shape:
    id = answer["id"]
    return _accepted(answer, overview=links.page(id), logs=links.of(id, "/logs"))


def rendered(answer: Answer) -> Shape:
    """*answer*: of a check, with the file as rendered."""
    return _accepted(answer, spec=answer["file"])


def validated(answer: Answer) -> Shape:
    return _accepted(answer, logs=f"{without_number(answer['id'])} would be accepted")


def _accepted(answer: Answer, **more: str) -> Shape:
    return {
        "name": answer["id"],
        "overview": None,
        "logs": None,
        "spec": None,
        "warnings": answer["warnings"],
        "dashboard_url": None,
        **more,
    }


# ---------------------------------------------------------------- lists and queries


def entry(answer: Answer, links: Links) -> Shape:
    """A line of a list."""
    id = answer["id"]
    return {
        "user": answer["submitted_by"],
        "name": id,
        "workflow_uuid": answer["uuid"],
        **times(answer),
        "queued_time": answer["queued_s"],
        "duration": answer["duration_s"],
        "status": answer["status"],
        "overview": links.page(id),
        "logs": links.of(id, "/logs"),
        "error_logs": links.of(id, links.errors),
        "grafana_url": None,
        "dashboard_url": None,
        "pool": answer["pool"],
        **_NO_APP,
        **{name: answer[name] for name in ("priority", "labels", "gpus", "gpus_asked")},
    }


def workflow(answer: Answer, links: Links) -> Shape:
    """With its groups and tasks."""
    id = answer["id"]
    done = [group["name"] for group in answer["groups"] if group["status"] == WorkflowStatus.COMPLETED]
    return {
        "name": id,
        **{name: answer[name] for name in ("uuid", "submitted_by", "cancelled_by")},
        "spec": links.of(id, "/spec"),
        "template_spec": links.of(id, f"/spec{links.template}"),
        "logs": links.of(id, "/logs"),
        "events": links.of(id, "/events"),
        "overview": links.page(id),
        "parent_name": answer["repeats"],
        "parent_job_id": None,
        "dashboard_url": None,
        "grafana_url": None,
        "tags": answer["tags"],
        **times(answer),
        "exec_timeout": answer["exec_timeout_s"],
        "queue_timeout": answer["queue_timeout_s"],
        "duration": answer["duration_s"],
        "queued_time": answer["queued_s"],
        "status": answer["status"],
        "outputs": "",
        "groups": [_group(group, done, id, links) for group in answer["groups"]],
        "pool": answer["pool"],
        "backend": answer["backend"],
        **_NO_APP,
        "plugins": {"rsync": False},
        **{name: answer[name] for name in ("priority", "labels", "warnings")},
        "failure_message": answer["message"] or None,
    }


def _group(group: Answer, done: Sequence[str], id: str, links: Links) -> Shape:
    """*done*: the groups of the workflow *id* that are COMPLETED."""
    return {
        "name": group["name"],
        "status": group["status"],
        **times(group),
        **_NO_STEPS,
        "scheduling_start_time": naive(group["queued_time"]),
        "remaining_upstream_groups": [name for name in group["upstream"] if name not in done],
        "downstream_groups": group["downstream"],
        "failure_message": group["message"] or None,
        "tasks": [_task(task, id, links) for task in group["tasks"]],
        **{name: group[name] for name in ("attempt", "preemptions", "pods")},
    }


def _task(task: Answer, id: str, links: Links) -> Shape:
    name, attempt = task["name"], task["attempt"]
    return {
        "name": name,
        "retry_id": attempt,
        "status": task["status"],
        "failure_message": task["message"] or None,
        "exit_code": task["exit_code"],
        **links.output(id, name, attempt),
        **_NO_STEPS,
        "events": links.of(id, "/events"),
        **times(task),
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
