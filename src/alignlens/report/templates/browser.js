"use strict";
(function () {
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  const data = JSON.parse(document.getElementById("sentences").textContent);
  if (!data.length) return;
  const $ = (id) => document.getElementById(id);
  const make = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  const state = { dataset: 0, sentence: 0, shown: [], order: [] };
  const current = () => data[state.dataset];
  const key = (i, j) => i * 65536 + j;

  function linksOf(sentence, system) {
    const bits = sentence.has[system], links = new Set();
    for (let k = 0; 2 * k < sentence.cells.length; k++) {
      if ((parseInt(bits[k >> 2], 16) >> (k & 3)) & 1) links.add(key(sentence.cells[2 * k], sentence.cells[2 * k + 1]));
    }
    return links;
  }
  function pairs(flat) {
    const links = new Set();
    for (let k = 0; k < flat.length; k += 2) links.add(key(flat[k], flat[k + 1]));
    return links;
  }
  function scores(links, sure, possible) {
    let inSure = 0, inPossible = 0;
    for (const link of links) { inSure += sure.has(link); inPossible += possible.has(link); }
    const percent = (part, whole) => (whole ? (100 * part) / whole : NaN);
    return {
      aer: 100 - percent(inSure + inPossible, links.size + sure.size),
      precision: percent(inPossible, links.size), recall: percent(inSure, sure.size), count: links.size,
    };
  }
  const shownNumber = (value) => (Number.isNaN(value) ? "undefined" : value.toFixed(1));

  // What the list sorts by, over the systems on show.
  function measure(sentence) {
    const sure = pairs(sentence.sure), possible = pairs(sentence.possible);
    const all = state.shown.map((system) => linksOf(sentence, system));
    const rates = all.map((links) => scores(links, sure, possible).aer).filter((rate) => !Number.isNaN(rate));
    const union = new Set(all.flatMap((links) => Array.from(links)));
    const total = all.reduce((sum, links) => sum + links.size, 0);
    return {
      aer: rates.length ? rates.reduce((a, b) => a + b, 0) / rates.length : NaN,
      apart: union.size ? 1 - total / (all.length * union.size) : 0,
      length: sentence.source.length + sentence.target.length,
    };
  }

  function fillList(keep) {
    const wanted = $("filter").value.toLowerCase(), by = $("sort").value;
    const rows = current().sentences.map((sentence, index) => ({ index, sentence, ...measure(sentence) }));
    const found = rows.filter(({ sentence }) =>
      !wanted || (sentence.source.join(" ") + " " + sentence.target.join(" ")).toLowerCase().includes(wanted));
    const low = (value) => (Number.isNaN(value) ? -1 : value);
    if (by === "aer") found.sort((a, b) => low(b.aer) - low(a.aer) || a.index - b.index);
    if (by === "apart") found.sort((a, b) => b.apart - a.apart || a.index - b.index);
    if (by === "length") found.sort((a, b) => a.length - b.length || a.index - b.index);
    state.order = found.map((row) => row.index);
    $("list").replaceChildren(...found.map((row) => {
      const bar = make("i", {});
      bar.style.width = `${by === "apart" ? 100 * row.apart : low(row.aer)}%`;
      const item = make("li", { role: "option", onclick: () => select(row.index) },
        make("small", {}, make("span", { textContent: `${row.index + 1}` }),
          make("span", { textContent: `AER ${shownNumber(row.aer)} · apart ${(100 * row.apart).toFixed(0)} %` })),
        make("span", { textContent: row.sentence.source.join(" "), dir: "auto" }), bar);
      item.dataset.index = row.index;
      return item;
    }));
    $("count").textContent = `${found.length} of ${current().total} sentences`;
    if (!keep && found.length) select(found[0].index); else mark();
  }

  function mark() {
    for (const item of $("list").children) {
      const chosen = Number(item.dataset.index) === state.sentence;
      item.setAttribute("aria-selected", chosen);
      if (chosen) {
        const list = $("list"), top = item.offsetTop - list.offsetTop;
        if (top < list.scrollTop || top + item.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = top - 80;
      }
    }
  }

  function select(index) { state.sentence = index; mark(); draw(); }

  function words(id, language, list) {
    $(id).replaceChildren(make("b", { textContent: language }),
      ...list.flatMap((word) => [make("span", { textContent: word }), " "]));
  }

  function point(i, j) {
    const sentence = current().sentences[state.sentence];
    for (const [id, index] of [["source-words", i], ["target-words", j]]) {
      $(id).querySelectorAll("span").forEach((span, k) => { span.innerHTML = ""; span.textContent = sentence[id.slice(0, 6)][k];
        if (k === index) span.replaceChildren(make("mark", { textContent: span.textContent })); });
    }
    for (const cell of document.querySelectorAll("#panels .grid td, #panels .grid th")) {
      const row = cell.dataset.i === String(i), column = cell.dataset.j === String(j);
      cell.classList.toggle("cross", i !== null && (row || column));
    }
    if (i === null) { $("status").textContent = "Point at a cell to see who links these words."; return; }
    const link = key(i, j), total = current().systems.length;
    const gold = pairs(sentence.sure).has(link) ? "sure" : pairs(sentence.possible).has(link) ? "possible" : "not in gold";
    let count = 0;
    for (let system = 0; system < total; system++) count += linksOf(sentence, system).has(link);
    $("status").textContent =
      `${sentence.source[i]} (${i}) – ${sentence.target[j]} (${j}): ${gold}; linked by ${count} of ${total} systems`;
  }

  function grid(sentence, links, sure, possible) {
    const head = make("tr", {}, make("th", {}), ...sentence.target.map((word, j) => {
      const heading = make("th", { scope: "col" }, make("span", { textContent: word }));
      heading.dataset.j = j;
      return heading;
    }));
    const rows = sentence.source.map((word, i) => {
      const heading = make("th", { scope: "row", textContent: word });
      heading.dataset.i = i;
      return make("tr", {}, heading, ...sentence.target.map((_, j) => {
        const link = key(i, j), known = possible.has(link) || sure.has(link);
        const classes = [sure.has(link) ? "sure" : known ? "possible" : "", links.has(link) ? (known ? "right" : "wrong") : ""];
        const cell = make("td", { className: classes.join(" ").trim(), onmouseenter: () => point(i, j) }, make("div", {}));
        cell.dataset.i = i; cell.dataset.j = j;
        return cell;
      }));
    });
    return make("table", { className: "grid", onmouseleave: () => point(null, null) },
      make("thead", {}, head), make("tbody", {}, ...rows));
  }

  function chooser(place) {
    const box = make("select", { ariaLabel: "system", onchange: () => { state.shown[place] = Number(box.value); fillList(true); draw(); } });
    const groups = new Map();
    current().systems.forEach((system, index) => {
      if (!groups.has(system.run)) groups.set(system.run, make("optgroup", { label: system.run }));
      groups.get(system.run).append(make("option", { value: index, textContent: `${system.run} · ${system.links}` }));
    });
    box.append(...groups.values());
    box.value = state.shown[place];
    return box;
  }

  function draw() {
    const sentence = current().sentences[state.sentence];
    const sure = pairs(sentence.sure), possible = pairs(sentence.possible);
    words("source-words", current().languages[0], sentence.source);
    words("target-words", current().languages[1], sentence.target);
    $("panels").replaceChildren(...state.shown.map((system, place) => {
      const links = linksOf(sentence, system), score = scores(links, sure, possible);
      const head = make("div", { className: "panel-head" }, chooser(place));
      if (state.shown.length > 1) {
        head.append(make("button", { textContent: "×", title: "remove this system",
          onclick: () => { state.shown.splice(place, 1); fillList(true); draw(); } }));
      }
      const text = `AER ${shownNumber(score.aer)} · precision ${shownNumber(score.precision)} · ` +
        `recall ${shownNumber(score.recall)} · ${score.count} links`;
      return make("div", { className: "panel" }, head, make("p", { textContent: text }), grid(sentence, links, sure, possible));
    }));
    point(null, null);
  }

  function choose(index) {
    state.dataset = index;
    state.shown = current().shown.slice();
    $("add").disabled = current().systems.length === 0;
    fillList(false);
  }

  data.forEach((dataset, index) => $("dataset").append(make("option", { value: index, textContent: dataset.name })));
  $("dataset").addEventListener("change", () => choose(Number($("dataset").value)));
  $("sort").addEventListener("change", () => fillList(false));
  $("filter").addEventListener("input", () => fillList(true));
  $("add").addEventListener("click", () => {
    const rest = current().systems.findIndex((_, system) => !state.shown.includes(system));
    if (rest >= 0) { state.shown.push(rest); fillList(true); draw(); }
  });
  $("list").addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = state.order[state.order.indexOf(state.sentence) + step];
    if (next !== undefined) select(next);
  });
  choose(0);
})();
