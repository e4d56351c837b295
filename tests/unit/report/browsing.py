"""One headless browser for the tests of the page, and what they ask of it: errors, requests, contrast, width."""

import json
import shutil
from contextlib import contextmanager

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SWITCHES = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync --disable-dev-shm-usage"
)
# Text against the nearest ground that is not transparent, by the formula of WCAG 2; 4.5 is its level AA.
FAINT = """
const channel = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const parse = (told) => (told.match(/[\\d.]+/g) || []).map(Number);
const ground = (e) => {
  for (; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] > 0) return c;
  }
  return matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
};
const faint = [];
for (const e of arguments[0].querySelectorAll("*")) {
  const said = [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data.trim()).join("");
  if (!said || !e.checkVisibility()) continue;
  const style = getComputedStyle(e);
  const [text, back] = [parse(e instanceof SVGElement ? style.fill : style.color), ground(e)].map(light);
  const ratio = (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
  if (ratio < 4.5) faint.push(`${e.localName}.${e.getAttribute("class")} ${ratio.toFixed(2)}: ${said.slice(0, 40)}`);
}
return faint;
"""


def installed():
    """(browser, driver), or None where one of them is missing."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


@contextmanager
def started(browser, driver, profile):
    """The browser with a profile of its own; nothing is looked up or downloaded to start it."""
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for switch in [*SWITCHES.split(), f"--user-data-dir={profile}"]:
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    made = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield Browser(made)
    finally:
        made.quit()


class Browser:
    """`driver` is selenium's; the rest asks of the page that is open."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, path, part="", width=1280, height=900, theme="light"):
        """Open a file as it would be opened from a disk, with empty logs."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
        self.driver.get("about:blank")  # the same file with another part would not be loaded again
        for log in ("browser", "performance"):
            self.driver.get_log(log)
        self.driver.get(f"{path.as_uri()}{part}")

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def told(self, selector, name="textContent"):
        """A property, or else an attribute, of all such elements at one moment: the page may draw them anew."""
        one = "(e) => e[arguments[1]] ?? e.getAttribute(arguments[1])"
        return self.run(f"return [...document.querySelectorAll(arguments[0])].map({one})", selector, name)

    def one(self, selector):
        return self.driver.find_element("css selector", selector)

    def type(self, *keys):
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()
        self.settle()

    def settle(self):
        """Until what the page has put off to the next frame, or behind an event, is done."""
        self.run("return new Promise((done) => requestAnimationFrame(() => setTimeout(done, 20)))")

    def focused(self, name):
        return self.run("return document.activeElement.getAttribute(arguments[0])", name)

    def errors(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        """Every address but the page's own file that something was asked of."""
        told = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        sent = [one["params"]["request"]["url"] for one in told if one["method"] == "Network.requestWillBeSent"]
        return [url for url in sent if not url.startswith("file:")]

    def faint(self, selector="body"):
        return self.run(FAINT, self.one(selector))

    def too_wide(self, selector="html"):
        script = "return arguments[0].scrollWidth - Math.min(innerWidth, arguments[0].clientWidth)"
        return self.run(script, self.one(selector)) > 0
