"""The provider as a process: ``python -m tests.provider.site``; it prints its issuer, and takes commands at /test/.

What is not its own: users alice and bob (their password is ``pw``), groups in the claim ``groups``, and that the discovery document names
the device endpoint, which the package leaves out.
"""

import secrets
import sys
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import django
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from django.conf import settings

CLIENT = "runrig"
OTHER_CLIENT = "elsewhere"
HERE = "http://127.0.0.1/"
"""The start of the redirect URIs; any port is accepted (RFC 8252)."""


def main() -> None:
    server = _Server(("127.0.0.1", 0), _Quiet)
    issuer = f"http://127.0.0.1:{server.server_address[1]}/o"
    _configure(issuer)
    django.setup()
    from django.core.handlers.wsgi import WSGIHandler
    from django.core.management import call_command

    call_command("migrate", verbosity=0, run_syncdb=True)  # the current tables, not their history
    _populate()
    server.set_app(WSGIHandler())
    print(issuer, flush=True)
    server.serve_forever()


def _configure(issuer: str) -> None:
    settings.configure(
        ALLOWED_HOSTS=["127.0.0.1"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}},
        INSTALLED_APPS=[
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.sessions",
            "oauth2_provider",
        ],
        MIGRATION_MODULES=dict.fromkeys(("auth", "contenttypes", "sessions", "oauth2_provider")),
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
        ],
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        SECRET_KEY=secrets.token_hex(),
        USE_TZ=True,
        LOGIN_URL="/login/",
        ROOT_URLCONF="tests.provider.urls",
        TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}],
        OAUTH2_PROVIDER={
            "OIDC_ENABLED": True,
            "OIDC_ISS_ENDPOINT": issuer,
            "OIDC_RSA_PRIVATE_KEY": new_key(),
            "OAUTH2_VALIDATOR_CLASS": "tests.provider.urls.Validator",
            "OAUTH_DEVICE_VERIFICATION_URI": f"{issuer}/device/",
            "DEVICE_FLOW_INTERVAL": 1,
            "REFRESH_TOKEN_REUSE_PROTECTION": True,
            "ID_TOKEN_EXPIRE_SECONDS": 300,
            "SCOPES": dict.fromkeys(("openid", "profile", "email", "groups"), "to sign in"),
        },
    )


def new_key() -> str:
    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _populate() -> None:
    from django.contrib.auth.models import User
    from oauth2_provider.models import Application

    for name in ("alice", "bob"):
        User.objects.create_user(name, password="pw")
    for client in (CLIENT, OTHER_CLIENT):
        Application.objects.create(
            client_id=client,
            client_type=Application.CLIENT_PUBLIC,
            authorization_grant_type=Application.GRANT_AUTHORIZATION_CODE,
            redirect_uris=f"{HERE} {HERE}login/oidc/return",
            algorithm=Application.RS256_ALGORITHM,
        )


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Says nothing."""


if __name__ == "__main__":
    main()
