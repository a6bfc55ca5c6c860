"""What the provider's process adds to the package: the login page, the claims, and commands of tests."""

import json
from typing import Any, ClassVar

from django.contrib.auth.models import Group, User
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template import engines
from django.urls import include, path
from django.views.decorators.csrf import csrf_exempt
from oauth2_provider.models import Application
from oauth2_provider.oauth2_validators import OAuth2Validator
from oauth2_provider.settings import oauth2_settings
from oauth2_provider.views.oidc import ConnectDiscoveryInfoView

from tests.provider.site import new_key

_FORM = "<form method=post>{% csrf_token %}{{ form }}<input type=hidden name=next value='{{ next }}'></form>"


class Validator(OAuth2Validator):  # type: ignore[misc]
    oidc_claim_scope: ClassVar = {**OAuth2Validator.oidc_claim_scope, "groups": "groups"}

    def get_additional_claims(self, request: Any) -> dict[str, Any]:
        user = User.objects.get(pk=request.user.pk)
        groups = sorted(group.name for group in user.groups.all())
        return {"preferred_username": user.username, "groups": groups}


class Login(LoginView):  # type: ignore[misc]
    def render_to_response(self, context: dict[str, Any], **_: Any) -> HttpResponse:
        return HttpResponse(engines["django"].from_string(_FORM).render(context, self.request))


class Discovery(ConnectDiscoveryInfoView):  # type: ignore[misc]
    def get(self, request: HttpRequest, *arguments: Any, **more: Any) -> HttpResponse:
        told = json.loads(super().get(request, *arguments, **more).content)
        return JsonResponse(told | {"device_authorization_endpoint": f"{told['issuer']}/device-authorization/"})


@csrf_exempt  # type: ignore[untyped-decorator]
def command(request: HttpRequest) -> HttpResponse:
    told = json.loads(request.body)
    for name, groups in told.get("groups", {}).items():
        found = [Group.objects.get_or_create(name=group)[0] for group in groups]
        User.objects.get(username=name).groups.set(found)
    for name, renamed in told.get("rename", {}).items():
        User.objects.filter(username=name).update(username=renamed)
    if told.get("rotate"):
        oauth2_settings.OIDC_RSA_PRIVATE_KEY = new_key()
    if "returns" in told:
        for each in Application.objects.all():
            each.redirect_uris = f"{each.redirect_uris} {told['returns']}"
            each.save()
    if "kind" in told:
        Application.objects.update(authorization_grant_type=told["kind"])
    return JsonResponse({})


urlpatterns = [
    path("login/", Login.as_view()),
    path("test/", command),
    path("o/.well-known/openid-configuration", Discovery.as_view()),
    path("o/", include("oauth2_provider.urls", namespace="oauth2_provider")),
]
