"""Processes that tests/tools/matrix, pairs, everyday and hour start, and what they wait for."""

import contextlib
import os
import pathlib
import random
import select
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

START_DEADLINE = 120.0
STOP_DEADLINE = 10.0
# Below those that Linux gives to connections.
PORTS = (20_000, 32_000)
ports_given = threading.Lock()
given = set()


class Failed(Exception):
    """Something that has to run does not."""


class Processes:
    """The processes of one run; each leaves its output in the folder."""

    def __init__(self, folder):
        self.folder = folder
        self.processes = []

    def spawn(self, words, env=None, stdout=None):
        words = [str(word) for word in words]
        log = (self.folder / f"{len(self.processes)}-{pathlib.Path(words[0]).name}.log").open("wb")
        process = subprocess.Popen(
            words, env=os.environ | (env or {}), stdin=subprocess.DEVNULL, stdout=stdout or log, stderr=log, cwd=self.folder
        )
        self.processes.append(process)
        return process

    def announced(self, words, env=None):
        """Starts a server that prints `listening on URL`, and gives the URL."""
        process = self.spawn(words, env, stdout=subprocess.PIPE)
        readable, _, _ = select.select([process.stdout], [], [], START_DEADLINE)
        line = process.stdout.readline().decode() if readable else "nothing"
        if not line.startswith("listening on "):
            raise Failed(f"{words[0]} said {line!r} instead of where it listens")
        url = line.removeprefix("listening on ").strip()
        return url if "://" in url else f"http://{url}/mcp"

    def stop(self, process):
        process.terminate()
        try:
            process.wait(STOP_DEADLINE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def stop_all(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                self.stop(process)


def free_port():
    """A port that stays free until it is used: each is given once, and the system gives none of these to connections."""
    while True:
        port = random.randrange(*PORTS)
        with ports_given, contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            if port not in given:
                given.add(port)
                return port


def can_connect(port):
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    return False


def answers_200(url):
    try:
        return urllib.request.urlopen(url, timeout=2).status == 200
    except (urllib.error.URLError, OSError):
        return False


def wait_for(what, condition):
    deadline = time.monotonic() + START_DEADLINE
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(f"waited {START_DEADLINE:.0f} s for {what}")
        time.sleep(0.02)
