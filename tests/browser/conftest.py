"""A Streamlit server and a headless Chromium for the browser tests.

Where playwright or Chromium is missing, these tests are skipped with a line that says what to install.
"""

import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
WANTED = "the browser tests need Chromium and playwright: `apt-get install chromium`, `pip install playwright`"


@pytest.fixture(scope="session")
def browser():
    """One headless Chromium for all tests."""
    playwright = pytest.importorskip("playwright.sync_api", reason=WANTED)
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        pytest.skip(WANTED)
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=chromium, args=FLAGS)
        yield launched
        launched.close()


class Server:
    """A Streamlit server of one script, on a port of its own that it keeps when it is started again."""

    def __init__(self, script: str, log: Path):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.script, self.log, self.url = script, log, f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        options = ["--server.headless=true", f"--server.port={self.port}", "--server.address=127.0.0.1"]
        options += ["--browser.gatherUsageStats=false", "--server.fileWatcherType=none"]
        command = [sys.executable, "-m", "streamlit", "run", self.script, *options]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        _wait_until_healthy(self.url, self.process, str(self.log))

    def kill(self) -> None:
        """As the system ends a process that has taken too much memory: no time to say goodbye."""
        self.process.kill()
        self.process.wait(timeout=20)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=20)


@pytest.fixture(scope="session")
def serve(tmp_path_factory):
    """A function that starts ``streamlit run script`` (once per script) and returns its address."""
    started = {}

    def start(script: str) -> str:
        if script not in started:
            started[script] = Server(script, tmp_path_factory.mktemp("server") / "log.txt")
        return started[script].url

    yield start
    for server in started.values():
        server.stop()


@pytest.fixture
def own_server(tmp_path):
    """A server of the explorer for one test, which may kill it."""
    server = Server("dashboard/app.py", tmp_path / "log.txt")
    yield server
    server.stop()


def _wait_until_healthy(url: str, process: subprocess.Popen, log: str) -> None:
    for _ in range(240):
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=1):
                return
        except OSError:
            time.sleep(0.25)
    raise RuntimeError(f"streamlit did not start:\n{Path(log).read_text()}")


@pytest.fixture(scope="session")
def context(browser):
    """A function that returns one browser context per set of options; its pages share the compiled plotly.js."""
    opened = {}

    def start(**options):
        name = str(sorted(options.items()))
        if name not in opened:
            opened[name] = browser.new_context(**options)
        return opened[name]

    yield start
    for each in opened.values():
        each.close()


def _is_ours(line) -> bool:
    """Streamlit looks for itself below the address of each page, and finds itself one level higher."""
    return re.search(r"/\w+/_stcore/(health|host-config)$", line.location["url"]) is None


@pytest.fixture
def new_page(context):
    """A function that opens a page; at the end of the test no page may have logged an error."""
    pages, errors = [], []

    def start(width: int = 1280, height: int = 800, scheme: str = "light", **options):
        page = context(viewport={"width": width, "height": height}, color_scheme=scheme, **options).new_page()
        pages.append(page)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda line: errors.append(line.text) if line.type == "error" and _is_ours(line) else None)
        return page

    yield start
    for page in pages:
        page.close()
    assert errors == []
