"""Forms: submitted values, whether they were previewed, and a guard against repeated submission."""

import hashlib
import hmac
import uuid
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from urllib.parse import parse_qs

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from runrig.domain.errors import InvalidInput, Problem, RunrigError
from runrig.http import browsers
from runrig.service.commands.keys import Keys
from runrig.service.service import Service

MOST_FIELDS = 1_000
MOST_DONE = 1_000
"""Maximum number of processed forms to remember."""
_OURS = (browsers.CSRF_FIELD, "key", "step", "shown")
"""Fields that users do not type."""

Fields = Mapping[str, str]


async def sent(request: Request) -> Fields:
    """Returns the fields, with normalised line ends; none when a form is opened. Raises InvalidInput."""
    if request.method == "GET":  # Ignored for GET: only for POST does the guard check the second secret.
        return {}
    try:
        return fields_in(await request.body(), MOST_FIELDS)
    except ValueError:
        raise InvalidInput.one(f"not a form with at most {MOST_FIELDS} fields. Reload the page") from None


def fields_in(body: bytes, most: int) -> Fields:
    """Returns the last value of each field. Raises ValueError."""
    found = parse_qs(body.decode("ascii"), max_num_fields=most, keep_blank_values=True, errors="strict")
    return {name: values[-1].replace("\r\n", "\n") for name, values in found.items()}


def secret_of(request: Request, service: Service) -> str:
    """Returns the required first field of a form; "" if the request has no browser session."""
    cookie = None if "authorization" in request.headers else browsers.cookie(request.headers, request.app.state.scheme)
    return "" if cookie is None else service.access.browsers.csrf(cookie)


def tag_of(fields: Fields) -> str:
    """Returns a tag that changes with the values."""
    typed = sorted((name, value) for name, value in fields.items() if name not in _OURS)
    return hashlib.sha256(repr(typed).encode()).hexdigest()[:16]


def is_to_be_done(fields: Fields) -> bool:
    """Whether the user confirmed exactly what was shown."""
    return fields.get("step") == "send" and hmac.compare_digest(
        fields.get("shown", "").encode(), tag_of(fields).encode()
    )


def new_key() -> str:
    return str(uuid.uuid4())


def key_of(fields: Fields) -> str:
    """Returns the UUID of the form, which makes a repeated submission recognizable. Raises InvalidInput."""
    try:
        return str(uuid.UUID(fields.get("key", "")))
    except ValueError:
        raise InvalidInput.one("this form has no key. Reload the page") from None


def problems_of(error: RunrigError, fields: Collection[str]) -> dict[str, list[str]]:
    """Returns the errors by field; "" for errors of the whole form."""
    problems = error.problems if isinstance(error, InvalidInput) else (Problem(error.message),)
    found: dict[str, list[str]] = {}
    for each in problems:
        place = each.path if each.path in fields else "file" if each.line is not None and "file" in fields else ""
        line = "" if each.line is None else f"line {each.line}: "
        found.setdefault(place, []).append(sentence(f"{line}{each.message}"))
    return found


def sentence(text: str) -> str:
    """Returns *text* with a full stop, but no capital, because it may begin with a name."""
    return text if text.endswith(("?", ".")) else f"{text}."


class Done:
    """Processed forms, in one event loop. A restart clears them; then the rules refuse a repeated submission."""

    def __init__(self) -> None:
        self._keys = Keys()
        self._done: OrderedDict[tuple[str, str], str] = OrderedDict()

    async def once(self, user: str, key: str, do: Callable[[], str]) -> Response:
        """Runs *do* in a thread unless *user* already ran it with *key*, and redirects the browser to the resulting address."""
        async with self._keys.turn(f"{user} {key}"):
            if (user, key) not in self._done:
                self._done[user, key] = await run_in_threadpool(do)
                if len(self._done) > MOST_DONE:
                    self._done.popitem(last=False)
            return RedirectResponse(self._done[user, key], 303)
