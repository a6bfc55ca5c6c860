"""`ports.notices.NoticeStore` on a database."""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, func, select, update

from runrig.domain.notices import Delivery, NoticeSetting
from runrig.store import schema
from runrig.store.codec import Undecodable
from runrig.store.dialect import delete_rows, insert_rows, put_rows
from runrig.store.rows import same_fields
from runrig.store.transactions import Tables

_SETTING = schema.notice_settings.c
_DELIVERY = schema.deliveries.c
_COLUMNS = _DELIVERY.id, _DELIVERY.user, _DELIVERY.body, _DELIVERY.attempt, _DELIVERY.due
"""The fields of `Delivery`."""
_SETTINGS = same_fields(NoticeSetting, schema.notice_settings)

MOST_WAITING = 1_000
"""Notices of one user that wait for a receiver; older ones are left out."""


def _readable(connection: Connection, user: str) -> NoticeSetting | None:
    one = select(schema.notice_settings).where(_SETTING.user == user)
    try:
        found: NoticeSetting = _SETTINGS.of_row(connection.execute(one).mappings().one())
    except Undecodable:
        return None
    return found


class SqlNotices(Tables):
    def settings(self) -> tuple[NoticeSetting, ...]:
        """Without those that are damaged: their users can set them again."""
        every = select(schema.notice_settings).order_by(_SETTING.user)
        with self._transactions.reading() as connection:
            try:
                return tuple(map(_SETTINGS.of_row, connection.execute(every).mappings()))
            except Undecodable:
                users = connection.execute(select(_SETTING.user).order_by(_SETTING.user)).scalars().all()
                return tuple(found for user in users if (found := _readable(connection, user)) is not None)

    def put(self, setting: NoticeSetting) -> None:
        with self._transactions.writing() as connection:
            put_rows(connection, schema.notice_settings, [_SETTINGS.to_row(setting)])
            connection.execute(delete(schema.deliveries).where(_DELIVERY.user == setting.user))

    def delete(self, user: str) -> None:
        with self._transactions.writing() as connection:
            delete_rows(connection, schema.notice_settings, [(user,)])
            connection.execute(delete(schema.deliveries).where(_DELIVERY.user == user))

    def collected(self, position: int, deliveries: Sequence[Delivery]) -> None:
        with self._transactions.writing() as connection:
            connection.execute(
                update(schema.notice_settings).where(_SETTING.position < position).values(position=position)
            )
            last = connection.execute(select(func.max(_DELIVERY.number))).scalar_one() or 0
            rows = [
                (each.id, each.user, each.body, each.attempt, each.due, number)
                for number, each in enumerate(deliveries, start=last + 1)
            ]
            insert_rows(connection, schema.deliveries, rows)
            for user in sorted({each.user for each in deliveries}):
                newest = select(_DELIVERY.number).where(_DELIVERY.user == user).order_by(_DELIVERY.number.desc())
                kept = newest.limit(MOST_WAITING).subquery()
                first = select(func.min(kept.c.number)).scalar_subquery()
                connection.execute(delete(schema.deliveries).where(_DELIVERY.user == user, _DELIVERY.number < first))

    def due(self, now: float, latest: float) -> tuple[Delivery, ...]:
        first = select(_DELIVERY.user, func.min(_DELIVERY.number).label("number")).group_by(_DELIVERY.user).subquery()
        statement = (
            select(*_COLUMNS)
            .join(first, _DELIVERY.number == first.c.number)
            .where((_DELIVERY.due <= now) | (_DELIVERY.due > latest))
            .order_by(_DELIVERY.number)
        )
        return tuple(Delivery(*row) for row in self._rows(statement))

    def waiting(self, user: str) -> int:
        return self._value(select(func.count()).where(_DELIVERY.user == user)) or 0

    def of(self, user: str, most: int) -> tuple[Delivery, ...]:
        oldest = select(*_COLUMNS).where(_DELIVERY.user == user).order_by(_DELIVERY.number).limit(most)
        return tuple(Delivery(*row) for row in self._rows(oldest))

    def tried(self, deliveries: Sequence[Delivery], at: float, result: str, due: float | None) -> None:
        first = deliveries[0]
        with self._transactions.writing() as connection:
            whose = _SETTING.user == first.user
            connection.execute(update(schema.notice_settings).where(whose).values(tried_at=at, result=result))
            if due is None:
                delete_rows(connection, schema.deliveries, [(each.id,) for each in deliveries])
            else:
                changed = {"attempt": first.attempt + 1, "due": due}
                connection.execute(update(schema.deliveries).where(_DELIVERY.id == first.id).values(changed))
