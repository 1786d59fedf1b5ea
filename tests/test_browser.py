"""The site in a real browser: no console errors, no overflow on a phone, and working search, copying and dark mode.

Needs Chromium and its driver (Debian: `apt-get install chromium chromium-driver`), and selenium.
"""

import functools
import http.server
import importlib.util
import shutil
import threading

import pytest

PHONE, DESKTOP = (390, 844), (1280, 900)
BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")

pytestmark = [
    pytest.mark.skipif(not BROWSER or not DRIVER, reason="chromium and chromium-driver are not installed"),
    pytest.mark.skipif(importlib.util.find_spec("selenium") is None, reason="selenium is not installed"),
]


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def address(site):
    """Serve the site, and yield its address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=site))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def browser():
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


def shape(browser, size):
    """Set the browser's window to this size of a device."""
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def wait(browser, script):
    """Return a script's result once it is true, or False after ten seconds. (Animations take a moment.)"""
    from selenium.common.exceptions import TimeoutException
    from selenium.webdriver.support.ui import WebDriverWait

    try:
        return WebDriverWait(browser, 10, poll_frequency=0.1).until(lambda b: b.execute_script(f"return {script}"))
    except TimeoutException:
        return False


def test_no_page_has_an_error_or_is_too_wide(site, address, browser):
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html") if path.name != "404.html")
    assert len(pages) > 45
    wrong = []
    for page in pages:
        shape(browser, PHONE)
        browser.get(f"{address}/{page}")
        for size in (PHONE, DESKTOP):
            shape(browser, size)
            if not wait(browser, f"document.scrollingElement.scrollWidth <= {size[0]}"):
                wrong.append((page, f"wider than {size[0]} pixels"))
        broken = browser.execute_script(
            "return [...document.images].filter(i => i.complete && !i.naturalWidth && i.offsetParent).map(i => i.src)"
        )
        wrong += [(page, source) for source in broken]
        wrong += [(page, entry["message"]) for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert not wrong, wrong


def test_search_finds_a_function(address, browser):
    shape(browser, DESKTOP)
    browser.get(f"{address}/index.html?q=logsumexp")
    assert wait(browser, "document.querySelectorAll('.md-search-result__link').length > 0")
    assert "logsumexp" in browser.execute_script("return document.querySelector('.md-search-result__list').innerText")


def test_code_can_be_copied(address, browser):
    browser.get(f"{address}/index.html")
    assert wait(browser, "document.querySelectorAll('.md-clipboard, .md-code__button').length > 0")


def test_the_dark_mode_is_dark_and_shows_its_own_drawings(address, browser):
    shape(browser, DESKTOP)
    brightness = {}
    for scheme in ("light", "dark"):
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        )
        browser.get(f"{address}/architecture.html")
        browser.execute_script("localStorage.clear()")
        browser.get(f"{address}/architecture.html")
        colour = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        brightness[scheme] = sum(map(int, colour.strip("rgba()").split(",")[:3]))
        shown = browser.execute_script(
            "return [...document.images].filter(i => i.offsetParent).map(i => i.src).filter(s => s.includes('life'))"
        )
        assert [f"life-{scheme}.svg" in source for source in shown] == [True]
    assert brightness["dark"] < 300 < 600 < brightness["light"]
