"""Words for the attempts of a pod, between their lines of output."""


def next_attempt(pod: str, before: int, number: int, ended: str) -> str:
    """The line between two attempts of *pod*, counted from 0. *ended*: how the earlier one ended."""
    return f"{pod}: attempt {before + 1} {ended}; attempt {number + 1}"


def ended_as(message: str, status: str) -> str:
    """How an attempt ended, as the end of a sentence."""
    return f"ended: {message or status}"
