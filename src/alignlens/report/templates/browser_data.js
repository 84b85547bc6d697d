"use strict";
// What the page knows of sentences, and the scores of a method, which are unpacked when they are asked for.
// How a chunk is laid out: report/packing.py.
const Data = (function () {
  const LEVELS = 255, NONE = 0xffff, PARTS = 254, UNKNOWN = 255;
  const sets = JSON.parse(document.getElementById("sentences").textContent);
  const key = (i, j) => i * 65536 + j;
  const opened = new Map(), arriving = new Map();

  function pairs(flat) {
    const links = new Set();
    for (let k = 0; k < flat.length; k += 2) links.add(key(flat[k], flat[k + 1]));
    return links;
  }

  // A script beside the page calls this with its chunk.
  window.alignlensChunk = (chunk, packed) => arriving.get(chunk)(packed);

  function packedOf(chunk) {
    const embedded = document.getElementById(`chunk-${chunk}`);
    if (embedded) return Promise.resolve(embedded.textContent);
    return new Promise((resolve, reject) => {
      arriving.set(chunk, resolve);
      const script = document.createElement("script");
      script.src = `data/${chunk}.js`;
      script.onerror = () => reject(new Error(`data/${chunk}.js is missing: keep the folder of this page as it was made`));
      document.head.append(script);
    });
  }

  async function unpacked(chunk) {
    const bytes = Uint8Array.from(atob(await packedOf(chunk)), (character) => character.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
  }

  // Where the numbers of every sentence start, and how many there are in all.
  function starts(sizes) {
    const places = [0];
    for (const size of sizes) places.push(places[places.length - 1] + size);
    return places;
  }

  function matrix(scales, levels, k, start, rows, columns) {
    const low = scales[2 * k], step = (scales[2 * k + 1] - low) / LEVELS;
    return { rows, columns, at: (j, i) => low + step * levels[start + j * columns + i] };
  }

  function read(buffer, text, begin, hasPrefix) {
    let place = 0;
    const take = (Type, length) => {
      const found = new Type(buffer, place, length);
      place += length * Type.BYTES_PER_ELEMENT;
      return found;
    };
    const count = text.length, steps = text.map((sentence) => sentence.target.pieces.length + 1);
    const columns = text.map((sentence) => sentence.source.pieces.length + 1 + begin);
    const pieces = starts(steps.map((step) => step - 1)), words = starts(text.map((sentence) => sentence.target.words.length));
    const cells = starts(steps.map((step, k) => step * columns[k]));
    const squares = starts(steps.map((step) => (hasPrefix ? step * step : 0)));
    const shared = starts(steps.map((step) => (hasPrefix ? step : 0)));
    const scales = take(Float32Array, 2 * count), prefixScales = take(Float32Array, hasPrefix ? 2 * count : 0);
    const best = take(Uint16Array, pieces[count]), word = take(Uint16Array, words[count]);
    const scores = take(Uint8Array, cells[count]), prefixes = take(Uint8Array, squares[count]);
    const shares = take(Uint8Array, shared[count]);
    return text.map((_, k) => ({
      begin,
      best: best.subarray(pieces[k], pieces[k + 1]),
      word: word.subarray(words[k], words[k + 1]),
      source: matrix(scales, scores, k, cells[k], steps[k], columns[k]),
      prefix: hasPrefix ? matrix(prefixScales, prefixes, k, squares[k], steps[k], steps[k]) : null,
      shares: Array.from(shares.subarray(shared[k], shared[k + 1]), (part) => (part === UNKNOWN ? NaN : part / PARTS)),
    }));
  }

  // Returns, by sentence, the scores of a method of a model.
  async function scoresOf(set, model, method) {
    if (!opened.has(method.chunk)) {
      const buffer = await unpacked(method.chunk);
      opened.set(method.chunk, read(buffer, set.texts[model.text], model.begin, method.prefix));
    }
    return opened.get(method.chunk);
  }

  function linksOfScores(sentence, scores, extraction) {
    const links = new Set();
    if (extraction === "kobayashi") {
      scores.word.forEach((i, j) => { if (i !== NONE) links.add(key(i, j)); });
    } else if (sentence.source.words.length && sentence.target.words.length) {
      scores.best.forEach((i, j) => links.add(key(sentence.source.owners[i], sentence.target.owners[j])));
    }
    return links;
  }

  function linksOfAligner(aligned, aligner, reverse) {
    const bits = aligned.has[aligner], links = new Set();
    for (let k = 0; 2 * k < aligned.cells.length; k++) {
      const i = aligned.cells[2 * k], j = aligned.cells[2 * k + 1];
      if ((parseInt(bits[k >> 2], 16) >> (k & 3)) & 1) links.add(reverse ? key(j, i) : key(i, j));
    }
    return links;
  }

  function measures(links, sentence) {
    const sure = pairs(sentence.sure), possible = pairs(sentence.possible);
    let inSure = 0, inPossible = 0;
    for (const link of links) { inSure += sure.has(link); inPossible += possible.has(link) || sure.has(link); }
    const percent = (part, whole) => (whole ? (100 * part) / whole : NaN);
    return {
      aer: 100 - percent(inSure + inPossible, links.size + sure.size),
      precision: percent(inPossible, links.size), recall: percent(inSure, sure.size), count: links.size,
    };
  }

  // One minus the mean share of the two that have a link, over all links that either has.
  function apart(a, b) {
    const union = new Set([...a, ...b]);
    return union.size ? 1 - (a.size + b.size) / (2 * union.size) : 0;
  }

  function mean(values) {
    const known = values.filter((value) => !Number.isNaN(value));
    return known.length ? known.reduce((a, b) => a + b, 0) / known.length : NaN;
  }

  // The mean share of the source after the first step, where there is no prefix.
  function meanShare(shares) { return mean(shares.length > 1 ? shares.slice(1) : shares); }

  return { sets, key, pairs, scoresOf, linksOfScores, linksOfAligner, measures, apart, mean, meanShare };
})();
