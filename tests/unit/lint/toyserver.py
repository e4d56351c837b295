"""A package index on this machine: one page for a project, and its wheels, by ranges or whole."""

from __future__ import annotations

import io
import re
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


def wheel_of(project: str, version: str, files: dict[str, str], metadata: str = "") -> bytes:
    """A wheel with these texts, and with `metadata` behind the version in its METADATA."""
    made = io.BytesIO()
    described = {f"{project}-{version}.dist-info/METADATA": f"Version: {version}\n{metadata}"}
    with zipfile.ZipFile(made, "w") as wheel:
        for path, text in {**files, **described}.items():
            wheel.writestr(path, text)
    return made.getvalue()


@contextmanager
def serving(
    files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, *, ranges: bool = True
) -> Iterator[list[str]]:
    """Makes pip's index this one; gives the ranges of the files that are asked for by GET, or
    `whole`.
    """
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(files.get(self._name(), b""), body=False)

        def do_GET(self) -> None:
            data = files.get(self._name())
            if data is None:
                links = "".join(f'<a href="/files/{name}">{name}</a>' for name in files)
                self._answer(f"<!DOCTYPE html><html><body>{links}</body></html>".encode())
                return
            asked.append(self.headers.get("Range", "whole"))
            start, stop = re.findall(r"\d+", asked[-1]) or (0, len(data))
            self._answer(data[int(start) : int(stop) + 1], 206 if ranges else 200)

        def _name(self) -> str:
            return self.path.rpartition("/")[2]

        def _answer(self, data: bytes, status: int = 200, *, body: bool = True) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Accept-Ranges", "bytes" if ranges else "none")
            self.end_headers()
            if body:
                self.wfile.write(data)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
    for name in (
        "PIP_EXTRA_INDEX_URL",
        "PIP_FIND_LINKS",
        "PIP_NO_INDEX",
        "PIP_PROXY",
        "HTTP_PROXY",
        "http_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    try:
        yield asked
    finally:
        server.shutdown()
        server.server_close()
