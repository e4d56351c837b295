"""One headless browser: opens a page, and says what is wrong with it (errors, requests, contrast,
width, axe).
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.remote.webelement import WebElement

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_SWITCHES = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking"
    " --disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars"
)
# Text against the nearest ground that is not transparent, by the formula of WCAG 2; 4.5 is its
# level AA.
_FAINT = """
const channel = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
const ground = (e) => {
  for (; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] > 0) return c;
  }
  return matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
};
const faint = [];
for (const e of arguments[0].querySelectorAll("*")) {
  const texts = [...e.childNodes].filter((n) => n.nodeType === 3);
  const words = texts.map((n) => n.data.trim()).join("");
  if (!words || !e.checkVisibility()) continue;
  const style = getComputedStyle(e);
  const colour = parse(e instanceof SVGElement ? style.fill : style.color);
  const [front, back] = [colour, ground(e)].map(light);
  const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
  const name = `${e.localName}.${e.getAttribute("class")}`;
  if (ratio < 4.5) faint.push(`${name} ${ratio.toFixed(2)}: ${words.slice(0, 40)}`);
}
return faint;
"""


# Rules of axe-core that a page breaks: `rule: help: element`.
_AXE = """
const done = arguments[arguments.length - 1];
axe.run(document, { resultTypes: ["violations"] }).then(
  ({ violations }) => done(violations.flatMap(
    ({ id, help, nodes }) => nodes.map(({ html }) => `${id}: ${help}: ${html.slice(0, 200)}`))),
  (error) => done([`axe failed: ${error}`]));
"""
# Seconds that axe may take with a large page.
_AXE_SECONDS = 60


def installed() -> tuple[str, str] | None:
    """(browser, driver), or None where one of them is missing."""
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


@contextmanager
def started(browser: str, driver: str, profile: Path) -> Iterator[Browser]:
    """The browser with a profile of its own; nothing is looked up or downloaded to start it."""
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for switch in [*_SWITCHES.split(), f"--user-data-dir={profile}"]:
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    made = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield Browser(made)
    finally:
        made.quit()


class Browser:
    """`driver` is selenium's; the rest asks of the page that is open."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver: Any = driver  # a part of it has no types

    def open(
        self,
        path: Path,
        part: str = "",
        *,
        width: int = 1280,
        height: int = 900,
        theme: str = "light",
        media: str = "screen",
        scale: float = 1,
    ) -> None:
        """Open a file as it would be opened from a disk, with empty logs.

        `media` is "screen" or "print".
        """
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"media": media, "features": [{"name": "prefers-color-scheme", "value": theme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
        self.driver.get("about:blank")  # the same file with another part would not be loaded again
        for log in ("browser", "performance"):
            self.driver.get_log(log)
        self.driver.get(f"{path.as_uri()}{part}")

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def all(self, selector: str, name: str = "textContent") -> list[Any]:
        """A property, or else an attribute, of all such elements at one moment: the page may draw
        them anew.
        """
        one = "(e) => e[arguments[1]] ?? e.getAttribute(arguments[1])"
        found: list[Any] = self.run(
            f"return [...document.querySelectorAll(arguments[0])].map({one})", selector, name
        )
        return found

    def one(self, selector: str) -> WebElement:
        element: WebElement = self.driver.find_element("css selector", selector)
        return element

    def type(self, *keys: str) -> None:
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()
        self.settle()

    def settle(self) -> None:
        """Until what the page has put off to the next frame, or behind an event, is done."""
        self.run("return new Promise((done) => requestAnimationFrame(() => setTimeout(done, 20)))")

    def focused(self, name: str) -> Any:
        return self.run("return document.activeElement.getAttribute(arguments[0])", name)

    def errors(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Every address but the page's own file that something was asked of."""
        messages = (
            json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")
        )
        sent = [
            m["params"]["request"]["url"]
            for m in messages
            if m["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in sent if not url.startswith("file:")]

    def faint(self, selector: str = "body") -> list[str]:
        """Texts with a contrast below 4.5, those in drawings included, which axe leaves out."""
        found: list[str] = self.run(_FAINT, self.one(selector))
        return found

    def violations(self) -> list[str]:
        """Return the faults that axe-core finds in the page as it is now."""
        self.driver.set_script_timeout(_AXE_SECONDS)
        self.run(
            (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
        )
        found: list[str] = self.driver.execute_async_script(_AXE)
        return found

    def too_wide(self, selector: str = "html") -> bool:
        script = "return arguments[0].scrollWidth - Math.min(innerWidth, arguments[0].clientWidth)"
        return bool(self.run(script, self.one(selector)) > 0)

    def picture(self) -> bytes:
        """Return a picture of the window, as PNG."""
        return base64.b64decode(
            self.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]
        )
