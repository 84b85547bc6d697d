// The page: what is chosen, the list of sentences, two panels. Everything chosen is in the address behind the #.
(function () {
  const $ = (id) => document.getElementById(id), { make, shown } = Grid;
  const PANELS = ["a", "b"], VIEWS = ["pieces", "words"];
  const state = { set: 0, direction: 0, sentence: 0, view: "pieces", panels: [], order: [] };
  const current = () => Data.sets[state.set];
  const direction = () => current().directions[state.direction];
  const modelOf = (panel) => direction().models.find((model) => model.who === panel.who && model.decoding === panel.decoding);
  const methodOf = (panel) => modelOf(panel)?.methods.find((method) => method.method === panel.method);
  const textOf = (panel) => current().texts[(panel && modelOf(panel) ? modelOf(panel) : direction()).text];
  const alignerOf = (panel) => current().aligners.findIndex((each) => each.who === panel.who && each.links === panel.links);
  const active = () => state.panels.filter(Boolean);
  const EXTRACTIONS = { ding: "best piece (Ding)", kobayashi: "sums over words (Kobayashi)" };
  let views = [], latest = 0;

  // ---- What is chosen -------------------------------------------------------------------------------------------

  // Returns the panel that is nearest to what is wanted, or null where nobody of that name is.
  function settled(wanted) {
    if (!wanted) return null;
    const mine = direction().models.filter((model) => model.who === wanted.who);
    if (!mine.length) {
      const aligners = current().aligners.filter((each) => each.who === wanted.who);
      const found = aligners.find((each) => each.links === wanted.links) ?? aligners[0];
      return found ? { who: found.who, links: found.links } : null;
    }
    const model = mine.find((each) => each.decoding === wanted.decoding) ?? mine[0];
    const name = (wanted.method ?? "").split(",")[0];
    const method = model.methods.find((each) => each.method === wanted.method) ??
      model.methods.find((each) => each.name === name) ?? model.methods[0];
    const links = wanted.links in EXTRACTIONS ? wanted.links : "ding";
    return { who: model.who, decoding: model.decoding, method: method.method, links };
  }

  // Returns the setting of a method that has one value and otherwise differs least.
  function nearest(model, method, name, value) {
    const fitting = model.methods.filter((each) => each.name === method.name && each.parameters[name] === value);
    const alike = (each) => Object.keys(each.parameters).filter((k) => each.parameters[k] === method.parameters[k]).length;
    return fitting.reduce((best, each) => (alike(each) > alike(best) ? each : best));
  }

  function written(panel) { return panel ? [panel.who, panel.decoding ?? "", panel.method ?? "", panel.links].join("|") : ""; }
  function read(text) {
    const [who, decoding, method, links] = (text ?? "").split("|");
    return who ? { who, decoding, method, links } : null;
  }

  function address() {
    const told = new URLSearchParams({ data: current().name, direction: direction().name,
      sentence: current().numbers[state.sentence] + 1, view: state.view, sort: $("sort").value });
    if ($("filter").value) told.set("find", $("filter").value);
    PANELS.forEach((name, place) => told.set(name, written(state.panels[place])));
    return `#${told}`;
  }
  function remember() {
    if (location.hash !== address()) location.replace(address());
    $("link").href = address();
  }

  function restore() {
    const told = new URLSearchParams(location.hash.slice(1));
    state.set = Math.max(0, Data.sets.findIndex((set) => set.name === told.get("data")));
    state.direction = Math.max(0, current().directions.findIndex((each) => each.name === told.get("direction")));
    state.view = VIEWS.includes(told.get("view")) ? told.get("view") : "pieces";
    if (Array.from($("sort").options).some((option) => option.value === told.get("sort"))) $("sort").value = told.get("sort");
    $("filter").value = told.get("find") ?? "";
    state.panels = PANELS.map((name, place) => {
      const nothing = place > 0 && told.get(name) === "";
      return nothing ? null : settled(read(told.get(name))) ?? settled(direction().start[place]);
    });
    state.sentence = current().numbers.indexOf(Number(told.get("sentence")) - 1);
    show(state.sentence >= 0);
  }

  // ---- The list of sentences ------------------------------------------------------------------------------------

  // What the panels make of every sentence; sentences that are different texts cannot be compared.
  async function measured() {
    const set = current(), comparable = active().length > 1 && active().every((panel) => textOf(panel) === textOf(active()[0]) ||
      active().every((each) => (modelOf(each)?.decoding ?? "forced") === "forced"));
    const scores = await Promise.all(state.panels.map((panel) => {
      const method = panel && methodOf(panel);
      return method ? Data.scoresOf(set, modelOf(panel), method) : null;
    }));
    return set.numbers.map((number, k) => {
      const found = state.panels.map((panel, place) => {
        if (!panel) return null;
        const sentence = textOf(panel)[k], mine = scores[place] && scores[place][k];
        const links = mine ? Data.linksOfScores(sentence, mine, panel.links)
          : Data.linksOfAligner(set.aligned[k], alignerOf(panel), direction().reverse);
        return { panel, sentence, links, scores: mine, extraction: panel.links, ...Data.measures(links, sentence),
          share: mine && mine.prefix ? Data.meanShare(mine.shares) : NaN };
      });
      const present = found.filter(Boolean), main = present[0]?.sentence ?? textOf(null)[k];
      return { index: k, number, found, main, aer: Data.mean(present.map((each) => each.aer)),
        apart: comparable ? Data.apart(present[0].links, present[1].links) : NaN,
        share: present.map((each) => each.share).find((share) => !Number.isNaN(share)) ?? NaN,
        length: main.source.words.length + main.target.words.length };
    });
  }

  const percent = (value) => (Number.isNaN(value) ? "–" : value.toFixed(0));
  const order = {
    apart: (row) => -row.apart, aer: (row) => -row.aer, share: (row) => row.share, length: (row) => row.length,
    number: (row) => row.number,
  };

  function fillList() {
    const wanted = $("filter").value.toLowerCase(), by = order[$("sort").value];
    const rank = (row) => (Number.isNaN(by(row)) ? Infinity : by(row));
    const said = (row) => row.found.filter(Boolean).concat({ sentence: row.main })
      .flatMap(({ sentence }) => [sentence.source.words.join(" "), sentence.target.words.join(" ")]).join("\n").toLowerCase();
    const rows = views.filter((row) => said(row).includes(wanted))
      .sort((x, y) => (rank(x) === rank(y) ? x.number - y.number : rank(x) - rank(y)));
    state.order = rows.map((row) => row.index);
    $("list").replaceChildren(...rows.map((row) => {
      const told = [`AER ${percent(row.aer)}`, `apart ${percent(100 * row.apart)}`];
      if (!Number.isNaN(row.share)) told.push(`source ${percent(100 * row.share)}`);
      const item = make("li", { role: "option", id: `sentence-${row.index}`, onclick: () => choose(row.index) },
        make("small", {}, make("span", { textContent: row.number + 1 }), make("span", { textContent: told.join(" · ") })),
        make("span", { textContent: row.main.source.words.join(" "), dir: "auto" }));
      item.dataset.index = row.index;
      return item;
    }));
    $("count").textContent = `${rows.length} of ${current().numbers.length} sentences here`;
  }

  function mark() {
    const list = $("list");
    for (const item of list.children) {
      const chosen = Number(item.dataset.index) === state.sentence;
      item.setAttribute("aria-selected", chosen);
      if (!chosen) continue;
      list.setAttribute("aria-activedescendant", item.id);
      const top = item.offsetTop - list.offsetTop;
      if (top < list.scrollTop || top + item.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = top - 80;
    }
  }

  // ---- Panels ---------------------------------------------------------------------------------------------------

  function select(name, label, options, value, onchange) {
    const box = make("select", { name, onchange: () => onchange(box.value) });
    box.append(...options);
    box.value = value;
    return make("label", {}, `${label} `, box);
  }
  const option = (value, text = value) => make("option", { value, textContent: text });

  function controls(place) {
    const panel = state.panels[place], set = current(), model = panel && modelOf(panel), method = panel && methodOf(panel);
    const change = (wanted) => { state.panels[place] = settled(wanted); show(true); };
    const everyone = [
      ...(place ? [option("", "nothing")] : []),
      ...[["models", direction().models], ["word aligners", set.aligners]].filter(([, list]) => list.length)
        .map(([label, list]) => {
          const group = make("optgroup", { label });
          group.append(...Array.from(new Set(list.map((each) => each.who)), (who) => option(who)));
          return group;
        }),
    ];
    const found = [select("who", "Model", everyone, panel ? panel.who : "", (who) => change(who ? { ...panel, who } : null))];
    if (model) {
      const decodings = direction().models.filter((each) => each.who === panel.who).map((each) => each.decoding);
      const told = { forced: "reference", free: "own translation" };
      found.push(select("decoding", "Target", decodings.map((each) => option(each, told[each])), panel.decoding,
        (decoding) => change({ ...panel, decoding })));
      const names = [...new Set(model.methods.map((each) => each.name))];
      found.push(select("method", "Method", names.map((name) => option(name)), method.name,
        (name) => change({ ...panel, method: model.methods.find((each) => each.name === name).method })));
      const alike = model.methods.filter((each) => each.name === method.name);
      for (const name of Object.keys(method.parameters)) {
        const values = [...new Set(alike.map((each) => each.parameters[name]))];
        found.push(select(name, name, values.map((value) => option(value)), method.parameters[name],
          (value) => change({ ...panel, method: nearest(model, method, name, value).method })));
      }
      found.push(select("links", "Links", Object.entries(EXTRACTIONS).map(([each, text]) => option(each, text)), panel.links,
        (links) => change({ ...panel, links })));
    } else if (panel) {
      const mine = set.aligners.filter((each) => each.who === panel.who);
      found.push(select("links", "Links", mine.map((each) => option(each.links)), panel.links, (links) => change({ ...panel, links })));
    }
    return make("div", { className: "panel-head" }, ...found);
  }

  function overall(panel) {
    const method = methodOf(panel), aer = method ? method.aer[panel.links] : current().aligners[alignerOf(panel)].aer;
    return typeof aer === "number" ? `all sentences AER ${aer.toFixed(1)}` : "all sentences: no AER";
  }

  function words(view) {
    return ["source", "target"].map((side, place) => make("p", { className: "sentence" },
      make("b", { textContent: direction().languages[place] }),
      ...view.sentence[side].words.flatMap((word, k) => {
        const made = make("span", { textContent: word, dir: "auto" });
        made.dataset.side = side; made.dataset.word = k;
        return [made, " "];
      })));
  }

  function draw() {
    const row = views[state.sentence];
    PANELS.forEach((name, place) => {
      const view = row && row.found[place], parts = [controls(place)];
      if (view) {
        const number = (value) => (Number.isNaN(value) ? "undefined" : value.toFixed(1));
        const told = [`AER ${number(view.aer)}`, `precision ${number(view.precision)}`, `recall ${number(view.recall)}`,
          `${view.count} links`, overall(view.panel)];
        if (!Number.isNaN(view.share)) told.splice(4, 0, `source share ${shown(view.share)}`);
        const status = make("p", { className: "status", role: "status", textContent: "Point at a cell." });
        const pointed = (at) => point($(`panel-${name}`), at, status);
        parts.push(...words(view), make("p", { className: "measures", textContent: told.join(" · ") }), status,
          make("div", { className: "scroll-grid" }, Grid.table(view, state.view === "words", pointed)));
      }
      $(`panel-${name}`).replaceChildren(...parts);
    });
    $("number").textContent = row ? `Test sentence ${row.number + 1}` : "No sentence";
    mark();
    remember();
  }

  function point(panel, at, status) {
    status.textContent = at ? at.told : "Point at a cell.";
    for (const cell of panel.querySelectorAll(".cross")) cell.classList.remove("cross");
    if (!at) return;
    for (const cell of panel.querySelectorAll(`td[data-part="${at.part}"], th`)) {
      const { i, j, part } = cell.dataset;
      if ((part === at.part && i === String(at.i)) || j === String(at.j)) cell.classList.add("cross");
    }
  }

  // ---- What happens ---------------------------------------------------------------------------------------------

  function choose(index) { state.sentence = index; draw(); }
  function step(by) {
    const next = state.order[state.order.indexOf(state.sentence) + by];
    if (next !== undefined) choose(next);
  }

  // Shows what is chosen; the sentence stays, or is the first of the list.
  async function show(keep) {
    const mine = ++latest;
    $("trouble").textContent = "";
    $("data").value = state.set;
    $("direction").replaceChildren(...current().directions.map((each, place) => option(place, each.languages.join(" → "))));
    $("direction").value = state.direction;
    $("view").value = state.view;
    try {
      const found = await measured();
      if (mine !== latest) return;
      views = found;
    } catch (error) {
      $("trouble").textContent = typeof DecompressionStream === "undefined"
        ? "This page needs a browser of 2023 or later." : String(error.message ?? error);
      return;
    }
    fillList();
    if (!keep || state.sentence < 0) state.sentence = state.order[0] ?? 0;
    draw();
    document.body.dataset.ready = mine;
  }

  function toggleView() { state.view = state.view === "words" ? "pieces" : "words"; $("view").value = state.view; draw(); }
  function nextMethod(by) {
    const panel = state.panels[0], model = panel && modelOf(panel);
    if (!model) return;
    const place = model.methods.indexOf(methodOf(panel)), count = model.methods.length;
    state.panels[0] = { ...panel, method: model.methods[(place + by + count) % count].method };
    show(true);
  }
  const keys = {
    j: () => step(1), k: () => step(-1), ArrowDown: () => step(1), ArrowUp: () => step(-1), w: toggleView,
    m: () => nextMethod(1), M: () => nextMethod(-1), "/": () => $("filter").focus(), "?": () => $("help").showModal(),
  };

  if (!Data.sets.length) return;
  Data.sets.forEach((set, index) => $("data").append(option(index, set.name)));
  const restart = () => {
    state.panels = PANELS.map((_, place) => settled(state.panels[place]) ?? settled(direction().start[place]));
    show(false);
  };
  $("data").addEventListener("change", () => { state.set = Number($("data").value); state.direction = 0; restart(); });
  $("direction").addEventListener("change", () => { state.direction = Number($("direction").value); restart(); });
  $("view").addEventListener("change", () => { state.view = $("view").value; draw(); });
  $("sort").addEventListener("change", () => { fillList(); if (state.order.length) choose(state.order[0]); });
  $("filter").addEventListener("input", () => { fillList(); if (state.order.length && !state.order.includes(state.sentence)) choose(state.order[0]); else draw(); });
  $("keys").addEventListener("click", () => $("help").showModal());
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea, dialog");
    if (typing && event.key === "Escape") event.target.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });
  window.addEventListener("hashchange", () => { if (location.hash !== address()) restore(); });
  restore();
})();
