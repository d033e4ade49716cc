"""Headless Chromium for tests of pages, through Selenium.

``ICLIMIT_BROWSER`` and ``ICLIMIT_BROWSER_DRIVER`` may name another Chromium or Chrome and its
ChromeDriver; `make browser` installs those of Debian.  Nothing is downloaded by Selenium.
"""

import contextlib
import os
import shutil
from tempfile import TemporaryDirectory

import psutil
import pytest

BROWSERS = {
    "ICLIMIT_BROWSER": ("chromium", "chromium-browser", "google-chrome"),
    "ICLIMIT_BROWSER_DRIVER": ("chromedriver",),
}
"""Programs that are looked for, by the variable that may name another one."""

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-device-scale-factor=1",
)

PATIENCE = 60.0
"""Seconds that a page or a script may take, on the slowest machine."""


def find_programs():
    """Paths of browser and driver; the test is skipped if one of them is missing."""
    found = []
    for variable, names in BROWSERS.items():
        named = os.environ.get(variable)
        path = next(filter(None, map(shutil.which, [named] if named else names)), None)
        if path is None:
            wanted = f"{variable}={named}" if named else names[0]
            pytest.skip(f"no browser: {wanted} is not installed (`make browser` does it)")
        found.append(path)
    return found


@contextlib.contextmanager
def started_browser(width=1400, height=900):
    """Selenium's driver of a browser with a fresh profile; at the end all its processes end."""
    program, driver_program = find_programs()
    webdriver = pytest.importorskip("selenium.webdriver")
    with TemporaryDirectory(prefix="iclimit-browser-", ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = program
        for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = webdriver.ChromeService(driver_program)
        try:
            driver = webdriver.Chrome(options, service)
            driver.set_page_load_timeout(PATIENCE)
            driver.set_script_timeout(PATIENCE)
            yield driver
        finally:
            _end_processes(profile)
            if service.process is not None:
                service.process.kill()
                service.process.wait()


def _end_processes(profile):
    """Kill what runs with a profile: a browser that does not answer would not quit."""
    for process in psutil.process_iter(["pid", "cmdline"]):
        if any(profile in word for word in process.info["cmdline"] or ()):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def open_page(driver, page):
    """Open a file."""
    driver.get(page.resolve().as_uri())


def console_errors(driver):
    """Errors and failed requests that the console has shown since the last call."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]


AXE = """
for (const each of document.getAnimations())
  if (each.effect.getComputedTiming().endTime < Infinity) each.finish();
document.querySelectorAll("mjx-container > *").forEach(each => each.replaceChildren());
return axe.run({exclude: [["mjx-container"]]}, arguments[0]);
"""
"""Colours are judged behind a transition.  Formulas, thousands of strokes, are emptied: they would
take minutes."""


def serious_findings(driver, **options):
    """Serious and critical findings of axe-core in the open page and its frames, with the places.

    Options are those of ``axe.run``.
    """
    axe = pytest.importorskip("axe_selenium_python").Axe(driver)
    for frame in driver.find_elements("tag name", "iframe"):
        driver.execute_script("arguments[0].scrollIntoView()", frame)
        driver.switch_to.frame(frame)
        axe.inject()
        driver.switch_to.default_content()
    axe.inject()
    options = {"resultTypes": ["violations"], **options}
    found = driver.execute_script(AXE, options)
    return [
        (each["id"], [node["html"][:120] for node in each["nodes"][:3]])
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]
