"""Let only the browser of the person who started the workbench in.

Every request must name this machine as its host, which stops pages that rebind their name; come
from this origin, which stops other pages; and carry the token. The token comes once in the address,
then as a cookie that scripts cannot read, or in the header ``Authorization`` of programs.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_MAX = 1 << 20
"""Bytes of a request; a query is shorter."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data: "
    "blob:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


def new_token() -> str:
    """Make a token that nobody can guess."""
    return secrets.token_urlsafe(24)


class Guard:
    """Middleware that refuses strangers, limits bodies, and adds headers to every answer."""

    def __init__(self, app: ASGIApp, *, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._cookie = f"cepheid-{port}"
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or hand it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        nonce = secrets.token_urlsafe(16)
        scope["state"] = {**scope.get("state", {}), "nonce": nonce}
        answer = self._refusal(Request(scope))

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = HEADERS | {"Content-Security-Policy": POLICY.format(nonce=nonce)}
                if scope["path"].startswith("/api/"):
                    added["Cache-Control"] = "no-store"
                pairs = [(k.lower().encode(), v.encode()) for k, v in added.items()]
                message["headers"] = [*message["headers"], *pairs]
            await send(message)

        await (answer or self._app)(scope, _limited(receive), with_headers)

    def _refusal(self, request: Request) -> Response | None:
        """Tell why a request is refused; None if it may pass."""
        headers = request.headers
        if headers.get("host", "") not in self._hosts:
            return PlainTextResponse("this workbench answers to 127.0.0.1 only", 421)
        if not self._is_own(headers):
            return PlainTextResponse("requests of other pages are refused", 403)
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > BODY_MAX:
            return PlainTextResponse("the request is too long", 413)
        given = request.query_params.get("token")
        if given is not None and request.method == "GET" and request.url.path == "/":
            return self._enter(given)
        if not self._is_known(request):
            text = "open the address with the token that `cepheid serve` printed"
            return PlainTextResponse(text, 401)
        return None

    def _is_own(self, headers: Headers) -> bool:
        """Check that a request comes from a page of this workbench, or from no page."""
        origin = headers.get("origin")
        if origin is not None and origin not in {f"http://{host}" for host in self._hosts}:
            return False
        return headers.get("sec-fetch-site", "none") in ("none", "same-origin")

    def _enter(self, given: str) -> Response:
        """Turn the token of the address into a cookie, and take it out of the address."""
        if not self._fits(given):
            return PlainTextResponse("this token is not the one of this workbench", 401)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict", path="/")
        return answer

    def _is_known(self, request: Request) -> bool:
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        return self._fits(request.cookies.get(self._cookie, "")) or self._fits(bearer)

    def _fits(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())


def _limited(receive: Receive) -> Receive:
    """Stop a body that grows beyond the limit, whatever its length was said to be."""
    size = 0

    async def counted() -> Message:
        nonlocal size
        message: Any = await receive()
        size += len(message.get("body", b""))
        if size > BODY_MAX:
            return {"type": "http.disconnect"}
        return message  # type: ignore[no-any-return]  # the server made it

    return counted
