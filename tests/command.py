"""`broker` as a process of its own, as a user runs it, without waiting for Python to import it all.

Starting Python and importing the broker takes half a second of a core, and what a command does
takes a few milliseconds. So the processes are forked from one that has imported everything: this
module, run by `python -m tests.command`. What comes out of it is a full process: its own session if
it is to have one, files, an environment and a directory of its own.

`Command` has of `subprocess.Popen` what the tests use.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn

ROOT = Path(__file__).parents[1]
_IMPORTED = ("broker", "feeds", "xscl")
"""Packages, with all that is in them."""
_LATE = ("uvicorn.lifespan.on", "uvicorn.protocols.http.h11_impl")
"""What a service imports when it starts to serve."""
_LENGTH = struct.Struct("!I")


class Command(AbstractContextManager["Command"]):
    """A `broker` command that runs, or another function of the project, given as `main`. Its
    streams are pipes, files that are given, or nothing."""

    def __init__(
        self,
        args: Iterable[object],
        *,
        stdin: int | IO[Any] = subprocess.DEVNULL,
        stdout: int | IO[Any] = subprocess.DEVNULL,
        stderr: int | IO[Any] = subprocess.DEVNULL,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        start_new_session: bool = False,
        main: str = "broker.cli:main",
    ) -> None:
        self.args = ["broker", *map(str, args)]
        self.returncode: int | None = None
        own_in, self.stdin = _stream(stdin, "w")
        own_out, self.stdout = _stream(stdout, "r")
        own_err, self.stderr = _stream(stderr, "r")
        told, telling = os.pipe()
        order = {
            "args": self.args,
            "cwd": str(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
            "session": start_new_session,
            "main": main,
        }
        _server().start(order, [own_in, own_out, own_err, telling])
        for descriptor in (own_in, own_out, own_err, telling):
            os.close(descriptor)
        self._ended = threading.Event()
        self._told = os.fdopen(told)
        self.pid = int(self._told.readline())
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with self._told:
            self.returncode = int(self._told.readline())
        self._ended.set()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(
        self, input: str | None = None, timeout: float | None = None
    ) -> tuple[str, str]:
        """Send the input, read the pipes to their end, and wait for the process."""
        read = {"out": "", "err": ""}

        def drain(name: str, stream: IO[str]) -> None:
            read[name] = stream.read()

        threads = [
            threading.Thread(target=drain, args=(name, stream), daemon=True)
            for name, stream in (("out", self.stdout), ("err", self.stderr))
            if stream is not None
        ]
        for thread in threads:
            thread.start()
        if self.stdin is not None and not self.stdin.closed:
            with suppress(BrokenPipeError):
                if input:
                    self.stdin.write(input)
                self.stdin.close()
        self.wait(timeout)
        for thread in threads:
            thread.join()
        return read["out"], read["err"]

    def __exit__(self, *_: object) -> None:
        self.wait()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


def program(text: str, *args: object, stdout: int | IO[Any] = subprocess.DEVNULL) -> Command:
    """Start a text of Python, as `python -c` does, with the standard error of this process."""
    with os.fdopen(os.dup(2), "w") as errors:
        return Command((text, *args), stdout=stdout, stderr=errors, main="tests.command:run_text")


def run_text() -> None:
    """Run the text that is the first argument."""
    exec(compile(sys.argv.pop(1), "<program>", "exec"), {"__name__": "__main__"})


def run(
    args: Iterable[object],
    *,
    input: str | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a `broker` command to its end; a process that takes longer than allowed is killed."""
    stdin = subprocess.DEVNULL if input is None else subprocess.PIPE
    with Command(
        args, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd, env=env
    ) as command:
        try:
            out, err = command.communicate(input, timeout)
        except BaseException:
            command.kill()
            raise
    return subprocess.CompletedProcess(command.args, command.wait(), out, err)


def _stream(wanted: int | IO[Any], mode: str) -> tuple[int, IO[str] | None]:
    """A descriptor for the process, and this side's end if there is a pipe between."""
    if wanted == subprocess.PIPE:
        reading, writing = os.pipe()
        if mode == "w":
            return reading, os.fdopen(writing, "w", encoding="utf-8")
        return writing, os.fdopen(reading, "r", encoding="utf-8")
    if wanted == subprocess.DEVNULL:
        return os.open(os.devnull, os.O_RDWR), None
    assert not isinstance(wanted, int)
    return os.dup(wanted.fileno()), None


# -- the process from which they are forked ----------------------------------------------------


class _Server:
    """The client's side of the process that forks commands: one per test process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, other = socket.socketpair()
        command = [sys.executable, "-m", "tests.command", str(other.fileno())]
        subprocess.Popen(command, cwd=ROOT, pass_fds=[other.fileno()], start_new_session=True)
        other.close()

    def start(self, order: dict[str, Any], descriptors: list[int]) -> None:
        payload = json.dumps(order).encode()
        with self._lock:
            socket.send_fds(self._socket, [_LENGTH.pack(len(payload))], descriptors)
            self._socket.sendall(payload)


@cache
def _server() -> _Server:
    return _Server()


def _serve(orders: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork a process for each request, and report how it ended; returns in each forked process."""
    running: dict[int, int] = {}
    ringing, bell = os.pipe()
    for descriptor in (ringing, bell):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([orders.fileno(), ringing], [], [])
        if ringing in ready:
            with suppress(BlockingIOError):
                os.read(ringing, 1_000)
            _tell(running)
        if orders.fileno() in ready:
            received = _received(orders)
            if received is None:
                os._exit(0)  # whoever gives the orders has gone
            order, descriptors = received
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                for descriptor in (orders.detach(), ringing, bell, *running.values()):
                    os.close(descriptor)
                os.close(descriptors.pop())
                return order, descriptors
            running[pid] = descriptors.pop()
            os.write(running[pid], b"%d\n" % pid)
            for descriptor in descriptors:
                os.close(descriptor)


def _tell(running: dict[int, int]) -> None:
    """Report the exit status of each process that has ended."""
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with suppress(BrokenPipeError):
            os.write(running[pid], b"%d\n" % os.waitstatus_to_exitcode(status))
        os.close(running.pop(pid))


def _received(orders: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    header, descriptors, _, _ = socket.recv_fds(orders, _LENGTH.size, 4)
    if not header:
        return None
    (left,) = _LENGTH.unpack(header)
    payload = b""
    while len(payload) < left:
        payload += orders.recv(left - len(payload))
    return json.loads(payload), descriptors


def _become(order: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Become the requested command."""
    if order["session"]:
        os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if order["session"] and os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # Ctrl-C on this terminal is for this session
    own = {
        "stdin": os.fdopen(0, closefd=False),
        "stdout": os.fdopen(1, "w", closefd=False),
        "stderr": os.fdopen(2, "w", errors="backslashreplace", buffering=1, closefd=False),
    }
    for name, stream in own.items():
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)  # as long as this is there, nobody closes it
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    tempfile.tempdir = None
    sys.argv = order["args"]
    sys.modules["__main__"].__package__ = None  # so that help says "broker" and not "python -m"
    module, _, name = order["main"].partition(":")
    main = getattr(importlib.import_module(module), name)

    code: object = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    # Taking apart all that was imported would take longer than most commands.
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    for package in map(importlib.import_module, _IMPORTED):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    for name in _LATE:
        importlib.import_module(name)
    gc.freeze()  # what all of them share is never garbage
    _become(*_serve(socket.socket(fileno=int(sys.argv[1]))))
