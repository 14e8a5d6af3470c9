"""`broker tokens`, as an operator and as a tenant use it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.serving import Serving, book, queries


def test_a_token_from_beginning_to_end(service: Serving, tmp_path: Path) -> None:
    made = service.broker("tokens", "add", "t-desk", "--read", "Own", "--subscriptions", "1")
    assert made.stderr.startswith("t-desk: read:Own subscribe; quota: 1 subscriptions\n")
    secret = tmp_path / "t-desk.token"
    secret.write_text(made.stdout)
    as_desk = ("--url", service.api.base_url, "--token-file", secret)
    own = queries(tmp_path, "t-own: SELECT t FROM Own//book[./title->t];\n")
    assert "t-own: counts from" in service.done("subscribe", own, *as_desk)

    other = queries(tmp_path, "t-other: SELECT t FROM Other//book[./title->t];\n", "o.xscl")
    refused = service.broker("subscribe", other, *as_desk)
    assert refused.returncode == 1
    assert "lacks the scope read:Other" in refused.stderr
    hint = "broker tokens change t-desk --read Other"
    assert hint in refused.stderr
    service.done(*hint.split()[1:])
    refused = service.broker("subscribe", other, *as_desk)
    assert "may have 1 subscriptions" in refused.stderr
    service.done("tokens", "change", "t-desk", "--unlimited")
    service.done("subscribe", other, *as_desk)
    assert service.done("tokens", "whoami", *as_desk) == ("t-desk: read:Other read:Own subscribe\n")
    paused = service.done("tokens", "change", "t-desk", "--remove", "read:Other")
    assert "paused: t-other" in paused
    wrong = service.broker("tokens", "change", "t-desk", "--remove", "read:None")
    assert (wrong.returncode, "has no scope read:None" in wrong.stderr) == (2, True)

    service.done("publish", "Own", "-", stdin=book("x"))
    service.matched("t-own", 1)
    found = service.broker("matches", "--format", "jsonl", *as_desk).stdout
    assert json.loads(found)["values"] == {"t": ["x"]}
    assert service.broker("publish", "Own", "-", *as_desk, stdin=book("y")).returncode == 1

    fresh = service.broker("tokens", "rotate", "t-desk")
    assert service.broker("list", *as_desk).returncode == 1
    secret.write_text(fresh.stdout)
    assert "t-own" in service.done("list", *as_desk)
    assert "t-desk" in service.done("tokens", "list")
    csv = service.broker("tokens", "list", "--format", "csv").stdout.splitlines()
    assert csv[0].startswith("name,scopes,quota")
    revoked = service.done("tokens", "revoke", "t-desk", "--subscriptions", "drop")
    assert revoked == "t-desk: revoked; subscriptions dropped: 2\n"
    assert service.broker("list", *as_desk).returncode == 1
    log = service.broker("tokens", "log", "--format", "jsonl").stdout.splitlines()
    done = [(e["who"], e["action"]) for e in map(json.loads, log) if e["subject"].startswith("t-")]
    assert done == [
        ("", "addToken"),
        ("t-desk", "subscribe"),
        ("", "changeToken"),
        ("", "changeToken"),
        ("t-desk", "subscribe"),
        ("", "changeToken"),
        ("", "rotateToken"),
        ("", "revokeToken"),
    ]
    assert service.broker("tokens", "add", "t-none").returncode == 2
    assert service.broker("tokens", "revoke", "t-none").returncode == 1
