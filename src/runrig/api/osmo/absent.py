"""Explains features of the osmo API that runrig does not have; the osmo client shows the explanation to the user."""

_CONFIGS = "/api/configs/"
_ABSENT = {
    "/api/app": "runrig has no apps. Submit a workflow file with `workflow submit FILE`",
    "/api/bucket": "runrig has no buckets. Use your own storage in tasks, with a DATA credential",
    "/api/configs/backend_test": "runrig has no backend tests. `resource list` shows which nodes are ready",
    "/api/configs/dataset": "runrig has no datasets. Use your own storage in tasks, with a DATA credential",
    "/api/configs/group_template": "runrig has no group templates. Describe each group in the workflow file",
    "/api/configs/pod_template": "runrig has no pod templates. Pods are built from the workflow file and the flavors of the cluster file",
    "/api/configs/resource_validation": "runrig has no resource validations. `workflow validate FILE` checks a file against pool and nodes",
}
_ONLY_POOLS = (
    "only pools can be changed while a server runs, and their history cannot be deleted. Other settings are in the file that the server "
    "was started with"
)


def why_absent(method: str, path: str) -> str | None:
    """Returns a sentence if *path* belongs to a feature that runrig does not have or does not let clients change; else
    None.
    """
    path = "/" + path.lstrip("/")
    for prefix, why in _ABSENT.items():
        if path == prefix or path.startswith(prefix + "/"):
            return why
    return f"{method} {path}: {_ONLY_POOLS}" if method != "GET" and path.startswith(_CONFIGS) else None
