"""Where the osmo API has workflows."""

from runrig.osmo.shape import Links


def links(base: str) -> Links:
    """URLs of this API on the server *base*."""
    return Links(base, "/api/workflow/", "?use_template=True", "/error_logs", "task_name", "retry_id")
