"""A minimal WebSub hub: `python -m tests.feeds.hub [--lease N] [--algorithm sha256] [--refuse]`.

It verifies intent, keeps leases, and sends a topic's document to its subscribers, signed, when the
publisher says that there is news (`hub.mode=publish&hub.url=TOPIC`). Its first line of output is
its address; then one line for each thing that it did: a word and what it concerns. Standard
library only, and none of the code under test.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import secrets
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode

from tests.waiting import PATIENCE

Form = dict[str, str]


class Hub:
    def __init__(self, lease: int | None, algorithm: str, refuse: bool) -> None:
        self.lease = lease
        self.algorithm = algorithm
        self.refuse = refuse
        self.subscribers: dict[tuple[str, str], tuple[float, str]] = {}

    def handle(self, form: Form) -> int:
        mode = form.get("hub.mode")
        if mode == "publish":
            threading.Thread(target=self.distribute, args=(form["hub.url"],)).start()
            return 202
        if mode != "subscribe" or not {"hub.callback", "hub.topic"} <= form.keys():
            return 400
        threading.Thread(target=self.verify, args=(form,)).start()
        return 202

    def verify(self, form: Form) -> None:
        topic, callback = form["hub.topic"], form["hub.callback"]
        if self.refuse:
            call(callback, {"hub.mode": "denied", "hub.topic": topic, "hub.reason": "not\r\nhere"})
            tell("denied", topic)
            return
        lease = self.lease or int(form.get("hub.lease_seconds", "3600"))
        challenge = secrets.token_hex(16)
        question = {
            "hub.mode": "subscribe",
            "hub.topic": topic,
            "hub.challenge": challenge,
            "hub.lease_seconds": str(lease),
        }
        status, answer = call(callback, question)
        if 200 <= status < 300 and answer == challenge.encode():
            known = (callback, topic) in self.subscribers
            self.subscribers[callback, topic] = (time.time() + lease, form.get("hub.secret", ""))
            tell("renewed" if known else "verified", topic)
        else:
            tell("unverified", topic)

    def distribute(self, topic: str) -> None:
        with urllib.request.urlopen(topic, timeout=PATIENCE) as answer:
            body, kind = answer.read(), answer.headers["Content-Type"]
        for (callback, wanted), (until, secret) in list(self.subscribers.items()):
            if wanted != topic or until < time.time():
                continue
            digest = hmac.new(secret.encode(), body, getattr(hashlib, self.algorithm)).hexdigest()
            headers = {"Content-Type": kind, "X-Hub-Signature": f"{self.algorithm}={digest}"}
            headers["Link"] = f'<{topic}>; rel="self"'
            status, _ = send(urllib.request.Request(callback, body, headers))
            if status == 410:
                del self.subscribers[callback, topic]
            tell("sent" if status < 300 else f"failed-{status}", topic)


def call(callback: str, question: Form) -> tuple[int, bytes]:
    sign = "&" if "?" in callback else "?"
    return send(urllib.request.Request(f"{callback}{sign}{urlencode(question)}"))


def send(request: urllib.request.Request) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, b""
    except OSError:
        return 599, b""


def tell(what: str, topic: str) -> None:
    print(what, topic, flush=True)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--lease", type=int)
    options.add_argument("--algorithm", default="sha256")
    options.add_argument("--refuse", action="store_true")
    hub = Hub(**vars(options.parse_args()))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            self.send_response(hub.handle(form))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
