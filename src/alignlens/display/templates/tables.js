"use strict";
(function () {
  document.getElementById("theme")?.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  // Tables: a click on a heading sorts by it; numbers first, words for missing values always last.
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    table.tHead.rows[0].querySelectorAll("th").forEach((heading, column) => {
      heading.tabIndex = 0;
      const sort = () => {
        const down = heading.getAttribute("aria-sort") === "ascending";
        table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (row) => {
          const cell = row.cells[column];
          return cell.dataset.sort === undefined ? null : Number(cell.dataset.sort);
        };
        const rows = Array.from(body.rows);
        rows.sort((a, b) => {
          const x = key(a), y = key(b);
          if (x === null && y === null) {
            const order = a.cells[column].textContent.localeCompare(b.cells[column].textContent, "en", { numeric: true });
            return down ? -order : order;
          }
          if (x === null || y === null) return x === null ? 1 : -1;
          return down ? y - x : x - y;
        });
        rows.forEach((row) => row.classList.remove("first"));
        body.append(...rows);
      };
      heading.addEventListener("click", sort);
      heading.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
    });
  }
})();
