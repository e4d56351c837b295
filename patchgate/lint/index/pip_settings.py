"""Where pip would look for a wheel: its configuration files and its environment variables."""

from __future__ import annotations

import os
import sys
from configparser import RawConfigParser
from dataclasses import dataclass
from pathlib import Path

from unearth import PackageFinder


@dataclass(frozen=True, kw_only=True)
class PipSettings:
    index_urls: tuple[str, ...]
    #: Folders, or addresses of pages with links to wheels.
    find_links: tuple[str, ...]
    #: Hosts that may be asked by plain http, or with a certificate that nobody signed.
    trusted_hosts: tuple[str, ...]
    #: A file of certificates; None for the system's.
    cert: str | None
    #: None for what the environment says (HTTPS_PROXY).
    proxy: str | None
    #: Seconds.
    timeout: float

    @classmethod
    def load(cls) -> PipSettings:
        """Files first, the environment over them: https://pip.pypa.io/en/stable/topics/configuration/."""
        settings = _files()
        for name, value in os.environ.items():
            if name.startswith("PIP_"):
                settings[name[4:].lower().replace("_", "-")] = value
        words = {name: tuple(value.split()) for name, value in settings.items()}
        default = [source["url"] for source in PackageFinder().sources]  # where nobody names another, as pip's
        indexes = (*words.get("index-url", default), *words.get("extra-index-url", ()))
        links = words.get("find-links", ())
        return cls(
            index_urls=() if settings.get("no-index", "").lower() in ("1", "true", "yes", "on") else indexes,
            find_links=tuple(each for each in links if "://" in each or Path(each).exists()),
            trusted_hosts=words.get("trusted-host", ()),
            cert=settings.get("cert") or None,
            proxy=settings.get("proxy") or None,
            timeout=float(settings.get("timeout") or settings.get("default-timeout") or 15),
        )


def _files() -> dict[str, str]:
    """The section [global], the last file wins: the system's, the user's, the environment's, PIP_CONFIG_FILE."""
    named = os.environ.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return {}
    own = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    folders = ["/etc", "/etc/xdg/pip", "~/.pip", f"{own}/pip", "~/Library/Application Support/pip", sys.prefix]
    parser = RawConfigParser()
    parser.read([*(Path(each, "pip.conf").expanduser() for each in folders), *filter(None, [named])])
    return dict(parser["global"]) if parser.has_section("global") else {}
