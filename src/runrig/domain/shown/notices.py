"""Notices, as their user sees them."""

from dataclasses import dataclass
from datetime import datetime

from runrig.domain.notices import NoticeSetting, When
from runrig.domain.value import Shown, at, shown_as


@dataclass(frozen=True, slots=True)
class NoticeSettings(Shown):
    """*to*: where notices are sent; null: notices are off. *secret*: signs notices to an https address; shown only when it is created.

    *waiting*: number of notices that have not arrived yet. *tried_at*, *result*: of the last attempt.
    """

    to: str | None
    when: tuple[str, ...]
    min_run_s: int
    secret: str | None
    waiting: int
    tried_at: datetime | None
    result: str

    @classmethod
    def of(cls, setting: NoticeSetting | None, waiting: int, *, secret: str | None = None) -> "NoticeSettings":
        if setting is None:
            return cls(None, (), 0, None, waiting, None, "")
        tried_at = at(setting.tried_at)
        return cls(setting.to, setting.when, setting.min_run_s, secret, waiting, tried_at, setting.result)


shown_as(
    NoticeSettings(
        "https://hooks.example.org/runrig",
        (When.FAIL.value, When.PREEMPT.value),
        600,
        None,
        0,
        at(1769860800.31),
        "delivered",
    )
)


@dataclass(frozen=True, slots=True)
class NoticeTest(Shown):
    """*result*: ``delivered``, or what went wrong."""

    result: str


shown_as(NoticeTest("delivered"))
