"""Who may come in: the token, the host, the origin, and what every answer carries."""

from __future__ import annotations

import pytest
from tests.web.conftest import TOKEN, Bench

pytestmark = pytest.mark.xdist_group("web")


def test_nobody_comes_in_without_the_token(bench: Bench) -> None:
    for path in ("/", "/static/main.js", "/api/session", "/api/runs/x", "/nowhere"):
        assert bench.send(path, token=None)[0] == 401, path
        assert bench.send(path, token="another")[0] == 401, path


def test_the_token_of_the_address_becomes_a_cookie_that_scripts_cannot_read(bench: Bench) -> None:
    status, headers, _ = bench.send(f"/?token={TOKEN}", token=None)
    assert (status, headers["location"]) == (303, "/")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    pair = cookie.partition(";")[0]
    assert bench.send("/api/session", token=None, Cookie=pair)[0] == 200
    assert bench.send("/?token=wrong", token=None)[0] == 401


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "127.0.0.1", ""])
def test_another_host_is_refused(bench: Bench, host: str) -> None:
    assert bench.send("/api/session", host=host or " ")[0] in (400, 421)


def test_requests_of_other_pages_are_refused(bench: Bench) -> None:
    assert bench.send("/api/session", Origin="http://evil.example")[0] == 403
    assert bench.send("/api/session", Origin="null")[0] == 403
    assert bench.send("/api/session", Sec_Fetch_Site="cross-site")[0] == 403
    assert bench.send("/api/session", Sec_Fetch_Site="same-site")[0] == 403
    assert bench.send("/api/session", Origin=f"http://127.0.0.1:{bench.port}")[0] == 200


def test_every_answer_has_a_policy_without_inline_code(bench: Bench) -> None:
    for path, token in (("/", TOKEN), ("/api/session", TOKEN), ("/", None), ("/nowhere", TOKEN)):
        _, headers, _ = bench.send(path, token=token)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-frame-options"] == "DENY"


def test_styles_carry_a_nonce_that_changes(bench: Bench) -> None:
    pages = [bench.send("/")[2] for _ in range(2)]
    assert pages[0] != pages[1]
    assert b"{{nonce}}" not in pages[0]


def test_bodies_are_json_and_short(bench: Bench) -> None:
    assert bench.send("/api/check", b"text=x", Content_Type="text/plain")[0] == 415
    assert bench.send("/api/check", b"{", Content_Type="application/json")[0] == 400
    assert bench.send("/api/check", {"text": "x", "other": 1})[0] == 400
    assert bench.send("/api/check", {"text": "x" * 300_000})[0] == 413
    assert bench.send("/api/check", {"text": "x" * 2_000_000})[0] == 413


def test_names_are_no_paths(bench: Bench) -> None:
    for name in ("../events", "..%2f..%2fetc%2fpasswd", "/etc/passwd", "events.parquet"):
        assert bench.send(f"/api/data/{name}")[0] == 404, name
        assert bench.send("/api/runs", {"text": "PATTERN A", "data": name})[0] == 404, name
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py"):
        assert bench.send(path)[0] == 404, path


def test_nothing_is_written_without_the_option(bench: Bench) -> None:
    status, _, data = bench.send("/api/save", {"name": "x", "text": "PATTERN A"})
    assert status == 403
    assert b"--write" in data
