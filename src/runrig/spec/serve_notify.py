"""Field `notify` in the file of `runrig serve`: where notices to users may go."""

import ipaddress

from runrig.spec.fields import Field

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def read_notify(field: Field | None) -> tuple[Network, ...]:
    """Returns the private networks to which users can send notices; none if it is missing or invalid."""
    fields = field.fields("notify", ("allow",)) if field else None
    return tuple(filter(None, map(_network, fields.items("allow")))) if fields else ()


def _network(item: Field) -> Network | None:
    text = item.text()
    try:
        return None if text is None else ipaddress.ip_network(text)
    except ValueError:
        item.wrong(f"{text!r:.80} is not a network. Use for example 10.1.0.0/16 or 10.1.2.3.")
        return None
