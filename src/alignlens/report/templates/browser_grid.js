// One panel's matrix as a table: source down, target across, the target prefix below; in pieces or in words.
const Grid = (function () {
  const END = "END", BEGIN = "BEGIN", START = "START";
  const make = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };

  // A side as rows or columns: what stands there, the word it belongs to, and which pieces it is made of.
  function units(side, asWords) {
    if (!asWords) return side.pieces.map((label, k) => ({ label, word: side.owners[k], pieces: [k] }));
    const found = side.words.map((label, word) => ({ label, word, pieces: [] }));
    side.owners.forEach((word, k) => { if (found[word]) found[word].pieces.push(k); });
    return found;
  }
  const extra = (label, piece) => ({ label, word: -1, pieces: [piece] });

  // Scores of words: the sum over source pieces, the mean over target pieces.
  function score(matrix, across, down) {
    let sum = 0;
    for (const j of across.pieces) for (const i of down.pieces) sum += matrix.at(j, i);
    return across.pieces.length ? sum / across.pieces.length : 0;
  }

  const shown = (value) => (Number.isNaN(value) ? "unknown" : value === 0 ? "0" : Number(value.toPrecision(3)).toString());

  function shade(value, top) {
    const part = top > 0 ? Math.min(1, Math.abs(value) / top) ** 0.75 : 0;
    return `color-mix(in srgb, var(${value < 0 ? "--wrong" : "--ink"}) ${(62 * part).toFixed(1)}%, transparent)`;
  }

  // The cells of a source or prefix matrix, and the largest among them: words add up pieces.
  function values(matrix, columns, rows) {
    const cells = rows.map((down) => columns.map((across) => score(matrix, across, down)));
    return { cells, top: Math.max(0, ...cells.flat().map(Math.abs)) };
  }

  // Sides of a cell at which the frame around a pair of words is drawn.
  function frame(rows, columns, r, c) {
    const same = (list, a, b) => list[a] && list[b] && list[a].word === list[b].word;
    return [!same(rows, r, r - 1) && "t", !same(rows, r, r + 1) && "b", !same(columns, c, c - 1) && "l",
      !same(columns, c, c + 1) && "r"].filter(Boolean);
  }

  // Which cells carry the mark of a link: the best pieces where they decide, else one of every two words that are linked,
  // the one with the largest score or the first.
  function marks(view, columns, rows, found, asWords) {
    const places = new Map();
    rows.forEach((down, r) => columns.forEach((across, c) => {
      if (down.word < 0 || across.word < 0) return;
      if (!asWords && found && view.extraction === "ding") {
        if (view.scores.best[across.pieces[0]] === down.pieces[0]) places.set(`${r} ${c}`, `${r} ${c}`);
        return;
      }
      const link = Data.key(down.word, across.word), score = found ? found.cells[r][c] : 0;
      if (view.links.has(link) && !(places.get(link)?.score >= score)) places.set(link, { score, at: `${r} ${c}` });
    }));
    return new Set(Array.from(places.values(), (place) => place.at ?? place));
  }

  // ``view`` has sentence, links and extraction, and of a model its scores.
  function table(view, asWords, pointed) {
    const { sentence, scores } = view, begin = scores ? scores.begin : 0;
    const sure = Data.pairs(sentence.sure), possible = Data.pairs(sentence.possible);
    const columns = units(sentence.target, asWords), rows = units(sentence.source, asWords);
    const steps = columns.length, pieces = sentence.target.pieces.length;
    const shifted = rows.map((row) => ({ ...row, pieces: row.pieces.map((k) => k + begin) }));
    if (scores) {
      columns.push(extra(END, pieces));
      if (begin) { rows.unshift(extra(BEGIN, 0)); shifted.unshift(extra(BEGIN, 0)); }
      rows.push(extra(END, -1)); shifted.push(extra(END, sentence.source.pieces.length + begin));
    }
    const found = scores ? values(scores.source, columns, shifted) : null;
    const marked = marks(view, columns, rows, found, asWords);

    function row(part, down, r, cell) {
      const heading = make("th", { scope: "row", textContent: down.label, dir: "auto", className: down.word < 0 ? "extra" : "" });
      heading.dataset.i = r; heading.dataset.part = part;
      return make("tr", {}, heading, ...columns.map((across, c) => {
        const { inner, classes, value, told } = cell(across, c);
        const made = make("td", { className: classes.join(" ") }, inner);
        Object.assign(made.dataset, { i: r, j: c, part });
        if (value !== undefined) made.dataset.score = shown(value);
        made.addEventListener("mouseenter", () => pointed({ part, i: r, j: c, told }));
        return made;
      }));
    }

    const head = make("tr", {}, make("th", {}), ...columns.map((across, c) => {
      const heading = make("th", { scope: "col", className: across.word < 0 ? "extra" : "" },
        make("span", { textContent: across.label, dir: "auto" }));
      heading.dataset.j = c;
      return heading;
    }));
    const body = rows.map((down, r) => row("source", down, r, (across, c) => {
      const real = down.word >= 0 && across.word >= 0, link = Data.key(down.word, across.word);
      const gold = !real ? "" : sure.has(link) ? "sure" : possible.has(link) ? "possible" : "";
      const linked = marked.has(`${r} ${c}`), inner = make("div", {}), classes = [];
      if (gold) classes.push(gold, ...frame(rows, columns, r, c));
      if (linked) classes.push(gold ? "right" : "wrong");
      const value = found ? found.cells[r][c] : undefined;
      if (found) inner.style.background = shade(value, found.top);
      const told = `${down.label} – ${across.label}` + (value === undefined ? "" : `: score ${shown(value)}`) +
        (real ? `; ${gold ? `gold, ${gold}` : "not in gold"}; ${view.links.has(link) ? "linked" : "not linked"}` : "");
      return { inner, classes, value, told };
    }));
    const parts = [make("thead", {}, head), make("tbody", {}, ...body)];
    if (scores && scores.prefix) parts.push(...prefixParts(scores, columns, steps, asWords, sentence, row));
    return make("table", { className: found ? "grid shaded" : "grid", onmouseleave: () => pointed(null) }, ...parts);
  }

  // The share of the source at every step, and what the prefix contributed.
  function prefixParts(scores, columns, steps, asWords, sentence, row) {
    const share = row("share", { label: "share of the source", word: -1 }, 0, (across) => {
      const value = Data.mean(across.pieces.map((j) => scores.shares[j])), inner = make("div", {});
      const height = Number.isNaN(value) ? 0 : 100 * value;
      inner.style.background = `linear-gradient(to top, var(--accent) ${height.toFixed(1)}%, transparent 0)`;
      return { inner, classes: ["share"], value, told: `${across.label}: the source's share is ${shown(value)}` };
    });
    const before = units(sentence.target, asWords).map((unit) => ({ ...unit, pieces: unit.pieces.map((k) => k + 1) }));
    const rows = [extra(START, 0), ...before], found = values(scores.prefix, columns, rows);
    const body = rows.map((down, r) => row("prefix", down, r, (across, c) => {
      const inner = make("div", {}), value = found.cells[r][c], within = r <= c + asWords;  // a word's own first pieces
      if (within) inner.style.background = shade(value, found.top);
      const told = `${down.label}, in the prefix of ${across.label}: ${within ? `score ${shown(value)}` : "not read yet"}`;
      return { inner, classes: within ? [] : ["later"], value: within ? value : undefined, told };
    }));
    return [make("tbody", { className: "shares" }, share), make("tbody", { className: "prefix" }, ...body)];
  }

  return { table, make, shown };
})();
