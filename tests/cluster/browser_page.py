"""What a person does on the page that browses sentences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from browser import PATIENCE_SECONDS
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait


class SentencePage:
    """The page; every step waits until it shows its result."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    def open(self, path: Path, address: str = "") -> None:
        """Opens the page from a file, as a person does who was sent it."""
        self.driver.get("about:blank")
        self.driver.get(f"{path.absolute().as_uri()}{address}")
        self.wait(lambda driver: driver.execute_script("return document.body.dataset.ready"), "the page shows nothing")

    def choose(self, panel: str, **chosen: str) -> None:
        """Chooses by the names of the fields of a panel, one after the other."""
        for name, value in chosen.items():
            self._choose(f"#panel-{panel} select[name='{name}']", value)

    def choose_all(self, **chosen: str) -> None:
        """Chooses for both panels."""
        for name, value in chosen.items():
            self._choose(f".controls select[name='{name}']", value)

    def _choose(self, selector: str, text: str) -> None:
        before = self._shown()
        field = Select(self.driver.find_element(By.CSS_SELECTOR, selector))
        if field.first_selected_option.text != text:
            field.select_by_visible_text(text)
            self.wait(lambda _: self._shown() != before, f"{selector} changes nothing")

    def _shown(self) -> Any:
        return self.driver.execute_script("return location.hash")

    def fields(self, panel: str) -> dict[str, str]:
        """Returns what is chosen in a panel."""
        boxes = self.driver.find_elements(By.CSS_SELECTOR, f"#panel-{panel} select")
        return {str(box.get_attribute("name")): Select(box).first_selected_option.text for box in boxes}

    def options(self, panel: str, name: str) -> list[str]:
        """Returns what can be chosen in a field."""
        box = self.driver.find_element(By.CSS_SELECTOR, f"#panel-{panel} select[name='{name}']")
        return [option.text for option in Select(box).options]

    def cell(self, panel: str, i: int, j: int, part: str = "source") -> Any:
        """Returns a cell: row i, column j, of the source or of the prefix."""
        return self.driver.find_element(
            By.CSS_SELECTOR, f"#panel-{panel} td[data-part='{part}'][data-i='{i}'][data-j='{j}']"
        )

    def scores(self, panel: str, part: str = "source") -> list[list[float]]:
        """Returns all scores of a part, source down and target across; None where there is none."""
        found: list[list[float]] = self.driver.execute_script(
            """return [...document.querySelectorAll(`#panel-${arguments[0]} tr`)]
            .map(row => [...row.querySelectorAll(`td[data-part=${arguments[1]}]`)]).filter(cells => cells.length)
            .map(cells => cells.map(cell => cell.dataset.score === undefined ? null : Number(cell.dataset.score)))""",
            panel,
            part,
        )
        return found

    def text(self, selector: str) -> str:
        """Returns what stands at a place."""
        return str(self.driver.find_element(By.CSS_SELECTOR, selector).text)

    def sentences(self) -> list[int]:
        """Returns the numbers of the sentences in the list, counted from 1."""
        found = self.driver.find_elements(By.CSS_SELECTOR, "#list li small span:first-child")
        return [int(item.text) for item in found]

    def chosen_sentence(self) -> int:
        """Returns the number of the sentence that is shown."""
        return int(self.text("#number").removeprefix("Test sentence "))

    def fits(self) -> bool:
        """Returns whether both panels show all columns without scrolling."""
        grids = "[...document.querySelectorAll('.scroll-grid')]"
        return bool(self.driver.execute_script(f"return {grids}.every(each => each.scrollWidth <= each.clientWidth)"))

    def press(self, *keys: str) -> None:
        """Presses keys, wherever the focus is."""
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def leave_fields(self) -> None:
        """Takes the focus off any field."""
        self.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
        self.driver.execute_script("document.activeElement.blur()")

    def wait(self, condition: Callable[[Any], Any], problem: str) -> None:
        """Waits until a condition holds."""
        WebDriverWait(self.driver, PATIENCE_SECONDS).until(condition, problem)
