"""MLflow's UI on a results folder, in a headless Chromium that is driven as a person would."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from alignlens.errors import ToolError

PROGRAMS = ("chromium", "chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_SECONDS = 180

# The table of runs draws a row in two halves, which share a number; what a cell hides is not in its innerText.
_RUNS = """
const rows = new Map();
for (const cell of document.querySelectorAll('.ag-row [col-id]')) {
  const row = Number(cell.closest('.ag-row').getAttribute('row-index'));
  if (!rows.has(row)) rows.set(row, {});
  rows.get(row)[cell.getAttribute('col-id')] = (cell.querySelector('a') ?? cell).innerText.trim();
}
return [...rows.keys()].sort((a, b) => a - b).map(row => rows.get(row));
"""
# A section of the compare view is a table, or for metrics two grids side by side whose cells know only their place.
_SECTION = """
const item = [...document.querySelectorAll('[class*=collapse-item]')]
  .find(item => item.querySelector('[class*=collapse-header]').innerText.trim() === arguments[0]);
if (!item) return null;
const rows = [...item.querySelectorAll('tr')].map(row => [...row.children].map(cell => cell.innerText.trim()));
const places = new Map();
item.querySelectorAll('[role=grid]').forEach(grid => {
  for (const cell of grid.querySelectorAll('[role=rowgroup] > div')) {
    const top = parseFloat(cell.style.top);
    if (!places.has(top)) places.set(top, []);
    places.get(top).push(cell.innerText.trim());
  }
});
return rows.concat([...places.values()]);
"""
_CURVES = """
return [...document.querySelectorAll('.js-plotly-plot')].flatMap(plot => plot.data)
  .filter(curve => curve.x).map(curve => ({name: curve.name, x: [...curve.x], y: [...curve.y]}));
"""
_AREA = """
const item = [...document.querySelectorAll('[class*=collapse-item]')]
  .find(item => item.querySelector('[class*=collapse-header]').innerText.trim() === arguments[0]);
return {x: 0, y: 0, width: window.innerWidth, height: item.getBoundingClientRect().bottom};
"""
_CUT_OFF = """
return [...document.querySelectorAll('.ag-row a')].map(link => link.firstElementChild ?? link)
  .filter(shown => shown.scrollWidth > shown.clientWidth).map(shown => shown.innerText);
"""
_MORE = "//button[normalize-space()='Load more']"


def missing_programs() -> list[str]:
    """Returns which programs are not installed."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


@contextmanager
def served(results: Path) -> Iterator[str]:
    """Yields the address of ``alignlens ui`` on a results folder; its processes end with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "alignlens", "ui", "--results", str(results), "--port", str(port)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MLFLOW")}
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        address = f"http://127.0.0.1:{port}"
        _wait(server, lambda _: _answers(server, f"{address}/health"), f"nothing answers on {address}")
        yield address
    finally:
        _end_group(server)


@contextmanager
def chromium(width: int = 1600, height: int = 6000, zoom: float = 1) -> Iterator[Chrome]:
    """Yields a browser with a profile of its own; it ends with the block, and its driver with it.

    Its window is tall: MLflow draws the rows of a table that are on the screen, and no others.
    """
    with tempfile.TemporaryDirectory(prefix="alignlens-chromium-", ignore_cleanup_errors=True) as profile:
        options = ChromeOptions()
        options.binary_location = str(shutil.which("chromium"))
        window = (f"--window-size={width},{height}", f"--force-device-scale-factor={zoom}")
        for flag in (*FLAGS, *window, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        driver = Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            yield driver
        finally:
            driver.quit()


class MlflowPage:
    """What a person does in MLflow's UI. Every step waits until the page shows its result."""

    def __init__(self, driver: Chrome, address: str) -> None:
        self.driver, self._address = driver, address

    def start(self) -> None:
        """Opens the start page, leaves the part for chat applications and closes the assistant."""
        self.driver.get(self._address)
        self._press("//*[text()='Model training']")
        self._press("//*[@data-component-id='mlflow.assistant.chat_panel.close']")

    def open(self, experiment: str) -> None:
        """Opens an experiment by its name."""
        self.driver.get(f"{self._address}/#/experiments")
        self._press(f"//a[text()='{experiment}']")
        self.wait(lambda _: self.runs(), f"no run in {experiment}")

    def choose_view(self, name: str) -> None:
        """Chooses a saved view."""
        self._press("//button[normalize-space()='Views']")
        self._press(f"//*[@role='menu']//*[text()='{name}']")
        self._visible("//*[text()='Exit shared view']")

    def expand(self, group: str) -> None:
        """Shows the runs below a group."""
        before = len(self.runs())
        self._press(f"//*[contains(@class, 'ag-row')][.//a[normalize-space()='{group}']]//button")
        self.wait(lambda _: len(self.runs()) > before, f"{group} has nothing below it")

    def load_all(self) -> None:
        """Shows all runs; at first there are the latest hundred."""
        while self.driver.find_elements("xpath", _MORE):
            before = len(self.runs())
            self._press(_MORE)
            self.wait(
                lambda driver, before=before: len(self.runs()) > before or not driver.find_elements("xpath", _MORE),
                "no more runs come",
            )

    def search(self, text: str) -> None:
        """Filters the runs."""
        field = self._visible("//input[contains(@placeholder, 'metrics.rmse')]")
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(Keys.DELETE)
        field.send_keys(text, Keys.ENTER)

    def runs(self) -> list[dict[str, str]]:
        """Returns the rows of the table of runs that are on the screen: what stands in each column."""
        rows: list[dict[str, str]] = self.driver.execute_script(_RUNS)
        return [{_plain(column): text for column, text in row.items()} for row in rows]

    def names(self) -> list[str]:
        """Returns the names of the runs on the screen."""
        return [row.get("Run Name", "") for row in self.runs()]

    def names_cut_off(self) -> list[str]:
        """Returns the names that do not fit into their column."""
        found: list[str] = self.driver.execute_script(_CUT_OFF)
        return found

    def compare(self, names: Sequence[str]) -> None:
        """Ticks runs and presses Compare."""
        for name in names:
            row = f"//*[@role='row'][.//a[normalize-space()='{name}']]"
            self._press(f"{row}//div[contains(@class, 'ag-checkbox-input-wrapper')]")
        self._press("//button[normalize-space()='Compare']")
        self._visible(f"//*[starts-with(text(), 'Comparing {len(names)} Runs')]")
        self.wait(lambda _: self.section("Run details"), "nothing to compare")

    def show_differences(self, section: str) -> None:
        """Leaves the rows of a section of the compare view that differ."""
        self._press(f"//button[@aria-label='{section} - Show diff only']")

    def section(self, title: str) -> dict[str, list[str]]:
        """Returns the rows of a section of the compare view: a value for each run."""
        rows: list[list[str]] | None = self.driver.execute_script(_SECTION, title)
        return {row[0].rstrip(":"): row[1:] for row in rows or []}

    def fold(self, section: str) -> None:
        """Closes a section of the compare view."""
        self._press(f"//*[contains(@class, 'collapse-header')][normalize-space()='{section}']")
        self._visible(
            f"//*[contains(@class, 'collapse-header')][@aria-expanded='false'][normalize-space()='{section}']"
        )

    def hide_sidebar(self) -> None:
        """Gives the page the whole window."""
        self._press("//button[@aria-label='Toggle sidebar']")

    def picture(self, last_section: str) -> bytes:
        """Returns the compare view down to the end of a section, as PNG."""
        area = self.driver.execute_script(_AREA, last_section)
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": {**area, "scale": 1}})
        return base64.b64decode(shot["data"])

    def open_chart(self, metric: str) -> None:
        """Opens the chart of a metric from the compare view."""
        self._press(f"//a[@title='Plot chart'][normalize-space()='{metric}']")
        self.wait(lambda _: self.curves(), f"no chart of {metric}")

    def curves(self) -> list[dict[str, Any]]:
        """Returns the curves of the charts on the page: name, x and y."""
        found: list[dict[str, Any]] = self.driver.execute_script(_CURVES)
        return found

    def wait(self, condition: Callable[[Any], Any], problem: str) -> None:
        """Waits until a condition holds."""
        _wait(self.driver, condition, problem)

    def _visible(self, xpath: str) -> Any:
        def found(driver: Chrome) -> Any:
            return next((each for each in driver.find_elements(By.XPATH, xpath) if each.is_displayed()), None)

        ignored = [StaleElementReferenceException]
        return WebDriverWait(self.driver, PATIENCE_SECONDS, ignored_exceptions=ignored).until(found, f"no {xpath}")

    def _press(self, xpath: str) -> None:
        self._visible(xpath).click()


def _plain(column: str) -> str:
    """Returns a column of the table without its kind and its backticks."""
    return column.partition("`")[2].rstrip("`") or column


def _wait(subject: Any, condition: Callable[[Any], Any], problem: str) -> None:
    WebDriverWait(subject, PATIENCE_SECONDS).until(condition, problem)


def _answers(server: subprocess.Popen[bytes], url: str) -> bool:
    if server.poll() is not None:
        raise ToolError(f"alignlens ui exited with {server.returncode}")
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and all it started, by force if asking does not help."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(20)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
