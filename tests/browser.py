"""A real browser for tests of pages, without a display.

The browser comes from `.ci/browser` (``make browser``); tests are skipped without it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DRIVERS = ("chromedriver", "chromium.chromedriver")
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars")  # fmt: skip
SIZES = {"small phone": (320, 640), "phone": (360, 740), "large phone": (400, 860), "desktop": (1280, 900)}  # fmt: skip


def first(programs: tuple[str, ...]) -> str:
    found = next(filter(None, map(shutil.which, programs)), None)
    if found is None:
        pytest.skip(f"no {' or '.join(programs)} on the path: make browser says how to get it")
    return found


class Browser:
    """One Chromium."""

    def __init__(self, driver: webdriver.Chrome, folder: Path) -> None:
        self.driver = driver
        self.folder = folder

    def show(self, html: str, size: str = "desktop", scheme: str = "light") -> None:
        """Show a page as it is given to people: a file."""
        page = self.folder / "page.html"
        page.write_text(html, encoding="utf-8")
        self.visit(page.as_uri(), size, scheme)

    def visit(self, address: str, size: str = "desktop", scheme: str = "light") -> None:
        """Show the page at an address."""
        self.resize(size)
        self.prefer(scheme)
        self.complaints()  # Those of pages before it.
        self.driver.get("about:blank")
        self.driver.get(address)

    def prefer(self, scheme: str) -> None:
        wanted = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)

    def resize(self, size: str) -> None:
        width, height = SIZES[size]
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def every(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def until(self, script: str, *arguments: Any, seconds: float = 5) -> None:
        WebDriverWait(self.driver, seconds).until(lambda _: self.run(script, *arguments), script)

    def complaints(self) -> list[str]:
        entries = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [str(entry["message"]) for entry in entries]


@contextmanager
def open_browser(folder: Path) -> Iterator[Browser]:
    """Open the browser of a test.

    Args:
        folder: where its files go, if it sees the same folders.
    """
    options = webdriver.ChromeOptions()
    options.binary_location = first(BROWSERS)
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # A browser from a snap sees another /tmp than we do, but the same home.
    snap = "/snap/" in str(Path(options.binary_location).resolve())
    home = tempfile.mkdtemp(prefix="substrait-agg-", dir=Path.home()) if snap else None
    driver = webdriver.Chrome(options=options, service=Service(first(DRIVERS)))
    try:
        yield Browser(driver, Path(home) if home else folder)
    finally:
        driver.quit()
        if home:
            shutil.rmtree(home)
