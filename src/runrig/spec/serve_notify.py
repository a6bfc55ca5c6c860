"""Field `notify` in the file of `runrig serve`: where notices to users may go."""

import ipaddress
from urllib.parse import unquote, urlsplit

from runrig.domain.notices import Security, Smtp, mail_domain
from runrig.spec.fields import Field, Fields
from runrig.spec.serve_secrets import Secrets
from runrig.spec.serve_settings import NotifySpec, is_loopback

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_PORTS = {"smtp": 587, "smtps": 465}
_EXAMPLE = "smtps://USER:PASSWORD@mail.example.org"


def read_notify(field: Field, secrets: Secrets) -> NotifySpec:
    """Returns the settings; without what is missing or invalid."""
    fields = field.fields("notify", ("allow", "smtp"))
    allow = tuple(each for each in map(_network, fields["allow"].items()) if each is not None)
    return NotifySpec(allow, _smtp(fields["smtp"].fields("smtp", ("url", "from", "domains", "tls")), secrets))


def _network(item: Field) -> Network | None:
    text = item.text()
    try:
        return None if text is None else ipaddress.ip_network(text)
    except ValueError:
        item.wrong(f"{text!r:.80} is not a network. Use for example 10.1.0.0/16 or 10.1.2.3.")
        return None


def _smtp(fields: Fields, secrets: Secrets) -> Smtp | None:
    url, sender = fields.need("url", f"url: {_EXAMPLE}"), fields.need("from", "from: runrig@example.org")
    found = secrets.url(url, "url", "mail server")
    address = sender.text()
    own = mail_domain(address) if address is not None else None
    if address is not None and own is None:
        sender.wrong(f"{address!r:.80} is not a mail address. Use for example runrig@example.org.")
    listed = tuple(filter(None, map(_domain, fields["domains"].items())))
    if found is None or address is None or own is None:
        return None
    return _server(*found, fields["tls"], address, listed or (own,))


def _server(field: Field, text: str, plain: Field, sender: str, domains: tuple[str, ...]) -> Smtp | None:
    """Errors show nothing of *text*, because it may contain a password."""
    try:
        url = urlsplit(text)
        host, port = url.hostname, url.port or _PORTS.get(url.scheme, 0)
    except ValueError:
        host, port = None, 0
    if not host or not port or url.path.strip("/") or url.query or url.fragment:
        field.wrong(f"it is not the address of a mail server. Use {_EXAMPLE}, or smtp:// for STARTTLS.")
        return None
    encrypted = plain.flag(True)
    security = Security.TLS if url.scheme == "smtps" else Security.STARTTLS if encrypted else Security.NONE
    if not encrypted and url.scheme == "smtps":
        plain.wrong("smtps:// is always encrypted. Use smtp://, or leave out tls.")
    elif security is Security.NONE and url.password and not is_loopback(host):
        plain.wrong("the password would be sent unencrypted. Leave out tls, or the password.")
    return Smtp(host, port, security, sender, domains, unquote(url.username or ""), unquote(url.password or ""))


def _domain(item: Field) -> str | None:
    text = (item.text() or "").lower()
    if mail_domain(f"a@{text}") is None:
        item.wrong(f"{text!r:.80} is not a domain. Use for example example.org.")
        return None
    return text
