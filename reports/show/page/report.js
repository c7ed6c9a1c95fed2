// Draws the report out of the answers that stand in the page as JSON. Nothing is fetched. Every text that comes from a
// capture reaches the page as a text node, never as markup.
(() => {
"use strict";
// Of several runs the address says which one is looked at (?run=1), else it is the last one.
const select = document.getElementById("run");
const asked = new URLSearchParams(location.search).get("run");
const run = !select ? "1" : [...select.options].some((one) => one.value === asked) ? asked : String(select.options.length);
if (select) {
  select.value = run;
  document.title = document.querySelector("h1").textContent = select.selectedOptions[0].textContent;
  select.addEventListener("change", () => location.assign(`?run=${select.value}`));
}
const data = JSON.parse(document.getElementById(run === "1" ? "answers" : `answers-${run}`).textContent);
const texts = data.texts;
const text = (number) => (number === null || number === undefined ? "" : texts[number]);
const known = (value) => value !== null && value !== undefined;
const G = data.groups;

// ---------------------------------------------------------------- elements

const SVG = "http://www.w3.org/2000/svg";

function add(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

function el(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  return add(node, children);
}

function draw(name, attributes, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (known(value)) node.setAttribute(key, value);
  }
  return add(node, children);
}

// Each cell knows its head: on a phone there is no room for columns.
const tableRow = (row, kinds, named) =>
  el("tr", row.attributes, row.cells.map((cell, i) => el("td", { class: kinds[i], "data-head": named[i] || null }, cell)));

// heads: texts, or [text, "number"] for a column of numbers.
function table(heads, rows, attributes) {
  const kinds = heads.map((head) => (Array.isArray(head) ? head[1] : null));
  const named = heads.map((head) => (Array.isArray(head) ? head[0] : head));
  const body = el("tbody", null, rows.map((row) => tableRow(row, kinds, named)));
  const header = el("tr", null, named.map((head, i) => el("th", { scope: "col", class: kinds[i] }, head)));
  return el("div", { class: "scroll" }, el("table", attributes, el("thead", null, header), body));
}

// A table whose rows are made a piece at a time: ten thousand rows at once would hold the browser up.
function longTable(heads, count, rowOf, step, attributes) {
  const whole = table(heads, [], attributes);
  const body = whole.querySelector("tbody");
  const kinds = heads.map((head) => (Array.isArray(head) ? head[1] : null));
  const named = heads.map((head) => (Array.isArray(head) ? head[0] : head));
  const more = el("button", { class: "more", onclick: () => show(step * 4) });
  let shown = 0;
  function show(further) {
    const until = Math.min(count, shown + further);
    for (; shown < until; shown++) body.append(tableRow(rowOf(shown), kinds, named));
    more.textContent = `show more (${integer(count - shown)} left)`;
    more.hidden = shown >= count;
  }
  show(step);
  return el("div", null, whole, more);
}

// ---------------------------------------------------------------- words and numbers

const integer = (value) => (known(value) ? Math.round(value).toLocaleString("en") : "");
const plural = (count, noun) => `${integer(count)} ${noun}${count === 1 ? "" : "s"}`;
const spaced = (name) => String(name).replaceAll("_", " ");

function duration(milliseconds) {
  if (!known(milliseconds)) return "–";
  const size = Math.abs(milliseconds);
  if (size === 0) return "0 ms";
  if (size < 1) return `${milliseconds.toFixed(3)} ms`;
  if (size < 100) return `${milliseconds.toFixed(1)} ms`;
  if (size < 1000) return `${milliseconds.toFixed(0)} ms`;
  if (size < 60000) return `${(milliseconds / 1000).toFixed(size < 10000 ? 2 : 1)} s`;
  const seconds = Math.round(milliseconds / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

function size(bytes) {
  if (!known(bytes)) return "";
  for (const [unit, of] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (bytes >= of) return `${(bytes / of).toFixed(1)} ${unit}`;
  }
  return `${Math.round(bytes)} B`;
}

// Times are microseconds since the capture began.
const dateOf = (at) => new Date(data.zero_ms + at / 1000);
const severalDays = data.end > 0 && dateOf(0).toISOString().slice(0, 10) !== dateOf(data.end).toISOString().slice(0, 10);

function clock(at, digits = 3) {
  if (!known(at)) return "–";
  const iso = dateOf(at).toISOString();
  return (severalDays ? `${iso.slice(5, 10)} ` : "") + iso.slice(11, digits ? 20 + digits : 19);
}

function time(at) {
  return known(at) ? el("time", { datetime: dateOf(at).toISOString(), title: dateOf(at).toISOString() }, clock(at)) : "–";
}

// ---------------------------------------------------------------- packets

function copy(content, button) {
  const done = () => {
    const before = button.textContent;
    button.textContent = "copied";
    setTimeout(() => { button.textContent = before; }, 1200);
  };
  if (navigator.clipboard && window.isSecureContext) {
    navigator.clipboard.writeText(content).then(done, () => {});
  }
}

function packet(number) {
  if (!known(number)) return null;
  const filter = `frame.number == ${number}`;
  const chip = el("button", { class: "packet", title: `copy the Wireshark filter ${filter}`, type: "button" }, `packet ${number}`);
  chip.addEventListener("click", (event) => { event.stopPropagation(); copy(filter, chip); });
  return chip;
}

function filterLine(numbers) {
  const all = [...new Set(numbers.filter(known))].sort((a, b) => a - b);
  if (!all.length) return null;
  const filter = all.length === 1 ? `frame.number == ${all[0]}` : `frame.number in {${all.slice(0, 60).join(", ")}}`;
  const button = el("button", { type: "button", class: "small" }, "copy");
  button.addEventListener("click", () => copy(filter, button));
  return el("p", { class: "filter" }, "Wireshark: ", el("code", null, filter), " ", button);
}

const said = (observation, number, at) => [observation, " ", packet(number), known(at) && el("span", { class: "quiet" }, " ", time(at))];

// ---------------------------------------------------------------- sections

const main = document.querySelector("main");
const nav = document.querySelector("nav");

function section(id, title, ...children) {
  nav.append(el("a", { href: `#${id}` }, title.split(/:| and /)[0]));
  const node = el("section", { id }, el("h2", null, title), children);
  main.append(node);
  return node;
}

const absent = (table) => el("p", { class: "quiet" }, `There is no table “${table}” in this analysis, so nothing can be said here.`);

// Pictures are drawn when they come near the window, anew when their width changes, and all of them for paper.
const pictures = new Map();
const near = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) redraw(entry.target);
}, { rootMargin: "400px" });
const resized = new ResizeObserver((entries) => {
  for (const entry of entries) {
    const picture = pictures.get(entry.target);
    if (picture && picture.width && picture.width !== entry.target.clientWidth) redraw(entry.target);
  }
});

function redraw(node) {
  const picture = pictures.get(node);
  if (!picture || !node.clientWidth) return;
  picture.width = node.clientWidth;
  picture.paint(node, picture.width);
}

function picture(paint, attributes) {
  const node = el("div", { class: "picture", ...attributes });
  pictures.set(node, { paint, width: 0 });
  near.observe(node);
  resized.observe(node);
  return node;
}

// ---------------------------------------------------------------- head

function head() {
  document.getElementById("what").textContent = data.head.join(" · ");
}

function tiles() {
  const tiles = data.tiles.map((tile) =>
    el("a", { class: `tile ${tile.tone}`, href: `#${tile.section}` },
      el("span", { class: "value" }, tile.value), el("span", { class: "name" }, tile.name), el("span", { class: "note" }, tile.note)));
  main.append(el("div", { class: "tiles" }, tiles));
}

const SEVERITY = { critical: "✖", warning: "▲", info: "ℹ" };

// ---------------------------------------------------------------- incidents

const permalink = (id) => el("a", { class: "permalink", href: `#${id}`, title: "link to this" , "aria-label": "link to this" }, "#");
const incidentLink = (number) => el("a", { href: `#incident-${number}` }, `incident ${number}`);
const rebalanceLink = (group, generation) => `#group/${encodeURIComponent(group)}/${generation}`;

// What a link to a rebalance says: what is known of it, if the page has it.
function rebalanceWords(group, generation) {
  const g = G ? G.groups.name.indexOf(group) : -1;
  const first = g < 0 ? 0 : G.groups.first[g];
  const i = g < 0 ? -1 : G.rebalances.to.indexOf(generation, first);
  if (i < 0 || i >= first + G.groups.shown[g]) return `rebalance of ${group} to ${generation}`;
  const who = text(G.rebalances.client[i]);
  return `rebalance of ${group}, ${known(G.rebalances.from[i]) ? G.rebalances.from[i] : "?"} → ${generation}: ${triggerWords(G.rebalances.trigger[i])}${who && ` – ${who}`}`;
}

const explainers = new Map(); // which incident explains a finding (by id) or a rebalance (by its link)

function incidents() {
  const I = data.incidents;
  if (!I) { section("incidents", "Incidents", absent("incidents")); return; }
  I.rows.forEach((one, i) => {
    for (const [id] of one.findings) if (!explainers.has(id)) explainers.set(id, i + 1);
    for (const [group, generation] of one.rebalances) if (!explainers.has(rebalanceLink(group, generation))) explainers.set(rebalanceLink(group, generation), i + 1);
  });
  const shown = section("incidents", "Incidents");
  if (I.nothing_wrong) shown.append(el("p", I.no_kafka ? null : { class: "good" }, `${I.nothing_wrong[0].toUpperCase()}${I.nothing_wrong.slice(1)}.`));
  const cards = I.rows.map((one, i) => incidentCard(one, i + 1));
  cards.slice(0, 10).forEach((card) => shown.append(card));
  if (cards.length > 10) shown.append(el("details", null, el("summary", null, plural(cards.length - 10, "more incident")), cards.slice(10)));
  if (I.left_out) shown.append(el("p", { class: "quiet" }, `${plural(I.left_out, "more incident")} in the table “incidents”.`));
}

function incidentCard(one, number) {
  const open = number <= (innerWidth < 560 ? 1 : 3);
  const shows = one.evidence.filter((seen) => !seen[4]);
  const rejected = one.evidence.filter((seen) => seen[4]);
  const lines = (list) => list.map(([line, packetNumber, at]) => el("li", null, said(line, packetNumber, at)));
  const card = el("article", { class: `incident ${one.severity}`, id: `incident-${number}`, "data-kind": one.kind, tabindex: "-1" },
    el("h3", null, el("span", { class: "mark", "aria-hidden": "true" }, SEVERITY[one.severity] || "•"), " ", one.what, " ", permalink(`incident-${number}`)),
    el("p", { class: "cost" }, el("strong", null, "Cost: "), one.cost.join(" · ") || "none that the capture shows"),
    el("p", { class: "advice" }, el("strong", null, "What to do: "), one.advice),
    el("p", { class: "quiet" }, el("span", { class: "severity" }, one.severity), " · ", spaced(one.kind), " · ",
      el("span", { class: `badge ${one.certainty}` }, one.certainty), " · ", time(one.started), " to ",
      known(one.ended) ? time(one.ended) : "the end of the capture: not over", known(one.ended) && ` (${duration((one.ended - one.started) / 1000)})`));
  if (one.timeline) card.append(incidentTimeline(one, number, shows));
  card.append(el("details", { open }, el("summary", null, `How one knows (${one.evidence.length})`), el("ol", { class: "evidence" }, lines(shows)),
    rejected.length > 0 && [el("h5", null, "What else it could be, and why it is not"), el("ul", null, lines(rejected))],
    filterLine(one.evidence.map((seen) => seen[1]))));
  const links = [
    ...one.rebalances.map(([group, generation]) => el("a", { href: rebalanceLink(group, generation) }, rebalanceWords(group, generation))),
    ...one.findings.map(([id, title]) => el("a", { href: `#${id}` }, title)),
  ];
  const more = one.rebalance_count - one.rebalances.length;
  if (links.length) {
    card.append(el("details", { class: "explains", open: open && links.length <= 6 }, el("summary", null, `What it explains (${integer(links.length + more)})`),
      el("ul", null, links.map((link) => el("li", null, link)), more > 0 && el("li", null, plural(more, "more rebalance")))));
  }
  return card;
}

// Everything that an incident touched, on one axis of time: lanes of bars and marks, and curves below them.
const NAME = 15, TRACK = 14, ROW = NAME + TRACK + 4, CURVE = 44;
const ITEM_WORDS = {
  evidence: "what shows it", cluster: "change of the cluster", silence: "broker silent", open: "connection open", reset: "connection that was reset",
  failed: "connect that failed", rebalance: "rebalance open", unowned: "partitions without an owner",
};
const LANE_WORDS = { connection: "connections of", group: "group" };

function incidentTimeline(one, number, shows) {
  const T = one.timeline;
  const laneName = (lane) => (LANE_WORDS[lane.kind] ? `${LANE_WORDS[lane.kind]} ${lane.name}` : lane.name);
  const numberOf = (item) => shows.findIndex((seen) => seen[0] === item[3] && seen[2] === item[1]) + 1;
  const summary = [`Timeline of incident ${number}, ${clock(T.begin)} to ${clock(T.end)}; it began at ${clock(one.started)}`,
    ...T.lanes.map((lane) => `${laneName(lane)}: ${integer(lane.items.length)}, the first at ${clock(Math.max(T.begin, lane.items[0][1]))}: ${lane.items[0][3]}`),
    ...T.curves.map((curve) => `${curve.name}: at most ${curveValue(curve, Math.max(...curve.values))}`)].join(". ");
  const reading = el("p", { class: "reading quiet", "aria-live": "polite" }, "Click a bar or a mark to see what it is, with its packet.");
  const tell = (lane, items) => reading.replaceChildren(...items.slice(0, 8).flatMap((item) => add(el("span", { class: "told" }), [
    time(item[1]), known(item[2]) && [" to ", time(item[2])], " ", el("strong", null, laneName(lane)), ": ", item[3], " ", packet(item[4]),
    item[0] === "rebalance" && [" ", el("a", { href: rebalanceLink(lane.name, item[5]) }, "look at it")]])));
  const height = AXIS + T.lanes.length * ROW + T.curves.length * (CURVE + NAME) + 4;
  const paint = (node, width) => {
    const left = 2, inner = Math.max(60, width - 4);
    const x = (at) => left + ((Math.min(Math.max(at, T.begin), T.end) - T.begin) / (T.end - T.begin)) * inner;
    const svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": summary });
    const [from, to] = [x(one.started), x(known(one.ended) ? one.ended : T.end)];
    svg.append(draw("rect", { class: "lasting", x: from, y: AXIS - 4, width: Math.max(1, to - from), height }), axis(T.begin, T.end, left, inner, 0, height));
    T.lanes.forEach((lane, k) => paintLane(svg, lane, AXIS + k * ROW, x, width));
    T.curves.forEach((curve, k) => paintCurve(svg, curve, AXIS + T.lanes.length * ROW + k * (CURVE + NAME), x, width));
    svg.append(draw("line", { class: "moment", x1: from, x2: from, y1: AXIS - 6, y2: height }));
    node.replaceChildren(svg);
  };
  const paintLane = (svg, lane, y, x, width) => {
    const layer = draw("g", { class: `lane-of ${lane.kind}` });
    const words = laneName(lane) + (lane.left_out ? ` (and ${integer(lane.left_out)} more)` : "");
    layer.append(draw("line", { class: "grid", x1: 0, x2: width, y1: y + ROW - 1, y2: y + ROW - 1 }), label(words, y + 8, width));
    const track = y + NAME;
    // Bars may lie over each other, so words stand before all of them, each until the next bar begins.
    const wordsWithin = [], begins = lane.items.filter((one) => known(one[2]) && one[0] !== "unowned").map((one) => x(one[1]));
    for (const item of lane.items.filter((one) => known(one[2]))) {
      const [from, to] = [x(item[1]), x(item[2])];
      const thin = item[0] === "unowned";
      const drawn = draw("g", { class: "item", onclick: () => tell(lane, [item]) }, draw("title", null, `${clock(item[1])} ${item[3]}`),
        draw("rect", { class: `of-${item[0]}`, x: from, y: track + (thin ? TRACK - 5 : 1), width: Math.max(2, to - from), height: thin ? 4 : TRACK - 3, rx: 1.5 }));
      if (item[0] === "reset" && item[2] <= T.end) drawn.append(draw("text", { class: "end", x: to, y: track + TRACK - 3 }, "×"));
      const room = Math.floor((Math.min(to, ...begins.filter((at) => at > from)) - from - 6) / 6.3);
      if ((item[0] === "silence" || item[0] === "rebalance") && room >= 8) {
        wordsWithin.push(draw("text", { class: `within of-${item[0]}`, x: from + 4, y: track + TRACK - 4 }, item[3].length <= room ? item[3] : `${item[3].slice(0, room - 1)}…`));
      }
      layer.append(drawn);
    }
    layer.append(...wordsWithin);
    // Marks that would lie over each other are one.
    const marks = [];
    for (const item of lane.items.filter((one) => !known(one[2]))) {
      const last = marks[marks.length - 1];
      if (last && x(item[1]) - last.x < 16) last.items.push(item); else marks.push({ x: x(item[1]), items: [item] });
    }
    for (const mark of marks) {
      const several = mark.items.length > 1;
      const words = lane.kind === "evidence" ? `${Math.min(...mark.items.map(numberOf))}${several ? "+" : ""}` : several ? mark.items.length : "";
      const at = Math.min(Math.max(mark.x, 9), width - 9);
      layer.append(draw("g", { class: "item", onclick: () => tell(lane, mark.items) }, draw("title", null, mark.items.map((item) => `${clock(item[1])} ${item[3]}`).join("\n")),
        lane.kind === "evidence" ? draw("circle", { class: "of-evidence", cx: at, cy: track + 6, r: 7.5 })
          : draw("rect", { class: "of-cluster", x: at - 6, y: track, width: 12, height: 12, transform: `rotate(45 ${at} ${track + 6})` }),
        draw("text", { class: "mark", x: at, y: track + 10 }, words)));
    }
    svg.append(layer);
  };
  const rows = T.lanes.flatMap((lane) => lane.items.map((item) => ({ lane, item }))).sort((a, b) => a.item[1] - b.item[1]);
  const kinds = new Set(rows.map((row) => row.item[0]));
  const list = el("details", null, el("summary", null, `All of it in words, with packets (${integer(rows.length)})`));
  list.addEventListener("toggle", () => {
    if (list.open && list.children.length === 1) list.append(longTable(["time", "until", "where", "what", "packet"], rows.length, (i) => ({ cells: [time(rows[i].item[1]),
      known(rows[i].item[2]) ? time(rows[i].item[2]) : "", laneName(rows[i].lane), rows[i].item[3], packet(rows[i].item[4])] }), 15));
  });
  const canvas = picture(paint, { class: "picture of-incident" });
  canvas.style.minHeight = `${height}px`; // so that nothing moves once it is drawn
  return el("div", { class: "incident-timeline" }, canvas, reading,
    el("p", { class: "legend quiet" }, el("span", { class: "entry" }, el("span", { class: "swatch moment" }), "it began"), el("span", { class: "entry" }, el("span", { class: "swatch lasting" }), "it lasted"),
      Object.keys(ITEM_WORDS).filter((kind) => kinds.has(kind)).map((kind) => el("span", { class: "entry" }, el("span", { class: `swatch of-${kind}` }, kind === "reset" ? "×" : ""), ITEM_WORDS[kind])),
      kinds.has("evidence") && el("span", { class: "entry" }, "1+: numbers in “How one knows”")),
    T.lanes_left_out > 0 && el("p", { class: "quiet" }, `Connections between ${plural(T.lanes_left_out, "more pair")} are in the table “connections”.`), list);
}

const curveValue = (curve, value) => (curve.kind === "latency" ? duration(value) : plural(value, "record"));

function paintCurve(svg, curve, y, x, width) {
  const most = Math.max(...curve.values) || 1;
  const floor = y + NAME + CURVE - 4;
  const layer = draw("g", { class: `curve-of ${curve.kind}` }, label(`${curve.name}: at most ${curveValue(curve, Math.max(...curve.values))}`, y + 8, width),
    draw("line", { class: "grid", x1: 0, x2: width, y1: floor, y2: floor }));
  curve.at.forEach((at, k) => {
    if (!known(curve.values[k])) return;
    const until = k + 1 < curve.at.length ? curve.at[k + 1] : data.end;
    const tall = Math.max(1, (CURVE - 6) * curve.values[k] / most);
    layer.append(draw("rect", { x: x(at), y: floor - tall, width: Math.max(1, x(until) - x(at)), height: tall },
      draw("title", null, `${clock(at)}: ${curveValue(curve, curve.values[k])}`)));
  });
  svg.append(layer);
}

// ---------------------------------------------------------------- findings

function findings() {
  const found = data.findings;
  if (!found) { section("findings", "Findings", absent("findings")); return; }
  const cards = found.rows.map((one, i) => {
    const lines = el("ul", null, one.evidence.map(([line, number, at]) => el("li", null, said(line, number, at))));
    const packets = one.evidence.map((line) => line[1]);
    const subject = one.group === null ? el("span", null, one.subject) :
      el("button", { type: "button", class: "link", onclick: () => openGroup(one.group, one.since, one.until) }, one.subject);
    const explainer = explainers.get(one.id);
    return el("article", { class: `finding ${one.severity}`, id: one.id, "data-kind": one.kind, tabindex: "-1" },
      el("h3", null, el("span", { class: "mark", "aria-hidden": "true" }, SEVERITY[one.severity] || "•"), " ", one.title, " ", permalink(one.id)),
      explainer && el("p", { class: "explained" }, "Part of ", incidentLink(explainer), "."),
      el("p", { class: "quiet" }, el("span", { class: "severity" }, one.severity), " · ", spaced(one.kind), " · ", subject,
        known(one.since) && [" · since ", time(one.since)], known(one.until) && one.until !== one.since && [" until ", time(one.until)]),
      one.advice && el("p", { class: "advice" }, el("strong", null, "What to do: "), one.advice),
      one.subjects && el("details", null, el("summary", null, `All ${one.subjects.length} of them`), el("p", { class: "quiet" }, one.subjects.join(", "))),
      one.evidence.length > 0 && el("details", { open: !explainer && i < (innerWidth < 560 ? 1 : 3) }, el("summary", null, `Evidence (${one.evidence.length})`), lines, filterLine(packets)));
  });
  const shown = section("findings", "Findings");
  const explained = found.rows.findIndex((one) => explainers.has(one.id)); // these are last
  const count = explained < 0 ? cards.length : explained;
  if (!count && found.no_kafka) {
    shown.append(el("p", null, "No Kafka was seen, so nothing can be said of problems."));
  } else if (!count) {
    const trouble = data.incidents && data.incidents.rows.length && !data.incidents.nothing_wrong;
    const besides = trouble ? "Nothing besides the incidents. " : "No problem was found. ";
    shown.append(el("p", { class: "good" }, cards.length ? "Nothing besides what incidents explain. " : besides,
      el("a", { href: "#coverage" }, "Coverage"), " says what the capture does not show."));
  }
  const list = (some) => {
    some.slice(0, 20).forEach((card) => shown.append(card));
    if (some.length > 20) shown.append(el("details", null, el("summary", null, plural(some.length - 20, "more finding")), some.slice(20)));
  };
  list(cards.slice(0, count));
  if (count < cards.length) shown.append(el("h3", null, "Explained by incidents"));
  list(cards.slice(count));
  if (found.left_out) shown.append(el("p", { class: "quiet" }, `${plural(found.left_out, "more finding")} in the table “findings”.`));
}

// ---------------------------------------------------------------- groups

let openGroup = () => {}; // by place, and in it the costliest rebalance of a time, or the one to a generation

const triggerWords = (name) => (G.triggers[name] ? G.triggers[name][1] : spaced(name || "unknown"));
const triggerMark = (name) => (G.triggers[name] ? G.triggers[name][0] : "?");
const UNIT = { classic: "generation", connect: "generation" };

// A list of partitions is a number: of a list, or, negative, how many there were of one too long for the page.
function listSize(number) {
  if (!known(number)) return null;
  return number < 0 ? -1 - number : G.list_sizes[number];
}
function partitionsText(number) {
  if (!known(number)) return "not known";
  if (number < 0) return plural(-1 - number, "partition");
  const list = G.lists[number];
  return list.length ? list.map(([topic, numbers]) => `${text(topic)} ${numbers}`.trim()).join(" · ") : "none";
}
function partitionNames(number) {
  const names = [];
  if (!known(number) || number < 0) return names;
  for (const [topic, numbers] of G.lists[number]) {
    if (!numbers) names.push(text(topic));
    for (const range of numbers.split(",")) {
      if (!range) continue;
      const [first, last] = range.split("-").map(Number);
      for (let i = first; i <= (known(last) ? last : first) && names.length < 5000; i++) names.push(`${text(topic)}-${i}`);
    }
  }
  return names;
}

function rebalance(i) {
  const row = {};
  for (const name in G.rebalances) row[name] = G.rebalances[name][i];
  row.members = row.members && row.members.map((m) => {
    const [id, client, host, instance, software, session, timeout, assignors, subscription] = G.people[m[0]];
    return { id: text(id), client: text(client), host: text(host), instance: text(instance), software: text(software),
      session, timeout, assignors: text(assignors), subscription: text(subscription), lane: m[1], joined: m[2], synced: m[3],
      join: m[4], sync: m[5], before: m[6], now: m[7], begin: m[8], end: m[9] };
  });
  row.index = i;
  row.begin = [row.started, row.joined, row.stable].find(known);
  row.finish = [row.stable, row.recovered, row.joined, row.started].find(known);
  return row;
}

function groupSection() {
  if (!G) { section("groups", "Groups and rebalances", absent("rebalances")); return; }
  const count = G.groups.name.length;
  const shown = section("groups", "Groups and rebalances");
  if (!count) { shown.append(el("p", { class: "quiet" }, "No rebalance of any group was seen.")); return; }
  shown.append(el("p", null,
    `${plural(G.rebalance_count, "rebalance")} of ${plural(G.total, "group")}: `,
    G.cause_counts.slice(0, 8).map(([name, times], i) => [i ? ", " : "", `${triggerWords(name)} ${integer(times)}`]),
    G.cause_counts.length > 8 ? `, and ${G.cause_counts.length - 8} other causes.` : "."));
  const panel = el("div", { id: "group" });
  let opened = -1;
  const open = (g, since, until, generation) => {
    opened = g;
    for (const row of shown.querySelectorAll("tr[data-group]")) row.classList.toggle("chosen", Number(row.dataset.group) === g);
    panel.replaceChildren(...groupPanel(g, since, until, generation));
  };
  openGroup = (g, since, until, generation) => {
    if (opened !== g || known(generation)) open(g, since, until, generation);
    (known(generation) && document.getElementById("detail") || panel).scrollIntoView({ block: "start" });
  };
  if (count > 1) {
    const holder = el("div");
    const search = el("input", { type: "search", placeholder: "find a group", "aria-label": "find a group", autocomplete: "off" });
    const list = () => {
      const wanted = search.value.trim().toLowerCase();
      const found = [];
      for (let g = 0; g < count; g++) if (!wanted || G.groups.name[g].toLowerCase().includes(wanted)) found.push(g);
      const rows = (k) => {
        const g = found[k];
        return { attributes: { "data-group": g, class: g === opened ? "chosen" : null }, cells: [
          el("button", { type: "button", class: "link", onclick: () => openGroup(g) }, G.groups.name[g]),
          G.groups.protocols[g], integer(G.groups.rebalances[g]),
          G.groups.causes[g].slice(0, 3).map(([name, times]) => `${triggerWords(name)} ${times}`).join(", "),
          duration(G.groups.worst_cost[g]), duration(G.groups.worst_unowned[g])] };
      };
      holder.replaceChildren(
        longTable(["group", "protocol", ["rebalances", "number"], "causes", ["worst", "number"], ["nobody owned", "number"]], found.length, rows, 10, { class: "groups" }),
        ...(found.length ? [] : [el("p", { class: "quiet" }, "No group has this in its name.")]));
    };
    let waiting = 0;
    search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(list, 80); });
    list();
    shown.append(search, holder);
    if (G.left_out) shown.append(el("p", { class: "quiet" }, `${plural(G.left_out, "more group")} in the table “rebalances”.`));
  }
  shown.append(panel);
  open(0);
}

function groupPanel(g, since, until, generation) {
  const name = G.groups.name[g];
  const title = el("h3", { class: "group-name" }, name, " ", el("span", { class: "badge" }, G.groups.protocols[g] || "group"), " ", permalink(`group/${encodeURIComponent(name)}`));
  const [first, shown] = [G.groups.first[g], G.groups.shown[g]];
  if (!shown) {
    return [title, el("p", { class: "quiet" },
      `${plural(G.groups.rebalances[g], "rebalance")}, too many groups to draw them all: `,
      el("code", null, `cap.group(${JSON.stringify(name)}).timeline()`), " in a notebook draws this one.")];
  }
  const detail = el("div", { class: "detail", id: "detail", tabindex: "-1", "aria-live": "polite" });
  const rows = el("div");
  const timeline = new Timeline(g, choose);
  function choose(i, member, event) {
    timeline.select(i);
    for (const row of rows.querySelectorAll("tr")) row.classList.toggle("chosen", Number(row.dataset.rebalance) === i);
    detail.replaceChildren(...(known(event) ? eventDetail(event) : rebalanceDetail(rebalance(i), member, g)));
  }
  const row = (k) => {
    const i = first + k;
    const r = rebalance(i);
    const pick = () => { choose(i); timeline.reveal(r); detail.scrollIntoView({ block: "nearest" }); };
    return { attributes: { "data-rebalance": i, onclick: pick }, cells: [
      time(r.begin), el("button", { type: "button", class: "link", onclick: (e) => { e.stopPropagation(); pick(); } },
        `${known(r.from) ? r.from : "?"} → ${known(r.to) ? r.to : "?"}`),
      [el("span", { class: "mark" }, triggerMark(r.trigger)), " ", triggerWords(r.trigger)], text(r.client), r.certainty || "",
      duration(r.duration), duration(r.unowned_ms), r.member_count || known(r.duration) ? integer(r.member_count) : "?"] };
  };
  const parts = [title];
  if (shown < G.groups.rebalances[g]) {
    parts.push(el("p", { class: "quiet" }, `The first ${integer(shown)} of ${plural(G.groups.rebalances[g], "rebalance")} are shown; --limit page_rows=NUMBER is for more.`));
  }
  rows.append(longTable(["started", UNIT[G.groups.protocol[g]] || "epoch", "cause", "who", "certainty", ["took", "number"], ["nobody owned", "number"], ["members", "number"]], shown, row, 12, { class: "rebalances" }));
  parts.push(timeline.node, detail, el("h4", null, "Rebalances"), rows);
  const weight = (i) => Math.max(G.rebalances.cost[i] || G.rebalances.duration[i] || 0, G.rebalances.unowned_ms[i] || 0);
  // The costliest is what an incident is about, so it is open to begin with.
  let worst = first;
  for (let i = first; i < first + shown; i++) {
    if (known(since) && G.rebalances.started[i] < since) continue;
    if (known(until) && known(since) && G.rebalances.started[i] > until) break;
    if (weight(i) > weight(worst)) worst = i;
  }
  const wanted = known(generation) ? G.rebalances.to.findIndex((to, i) => i >= first && i < first + shown && String(to) === generation) : -1;
  choose(wanted < 0 ? worst : wanted);
  return parts;
}

// Names with values side by side; a sentence has a row of its own.
function facts(pairs) {
  const isSentence = (value) => value.some((part) => typeof part === "string" && part.length > 60);
  return el("dl", { class: "facts" }, pairs.filter(Boolean).map(([name, ...value]) =>
    el("div", { class: isSentence(value) ? "sentence" : null }, el("dt", null, name), el("dd", null, value))));
}

function rebalanceDetail(r, member, g) {
  const unit = UNIT[G.groups.protocol[g]] || "epoch";
  const meaning = G.triggers[r.trigger] ? G.triggers[r.trigger][2] : "";
  const accepted = r.evidence.filter((e) => !e[5]);
  const rejected = r.evidence.filter((e) => e[5]);
  const lines = (list, named) => el("ul", null, list.map(([line, number, at, weight, trigger]) =>
    el("li", null, named && el("strong", null, triggerWords(trigger), ": "), said(text(line), number, at),
      el("span", { class: "weight", title: "how much it speaks for this reading, 0 to 1" }, ` weight ${weight}`))));
  const who = text(r.client) || text(r.member);
  const link = rebalanceLink(G.groups.name[g], r.to);
  const parts = [
    el("h4", null, `${unit[0].toUpperCase()}${unit.slice(1)} ${known(r.from) ? r.from : "?"} → ${known(r.to) ? r.to : "?"}: `,
      triggerWords(r.trigger), who && [" – ", who], " ", el("span", { class: `badge ${r.certainty}` }, r.certainty || "unknown"), " ", permalink(link.slice(1))),
    explainers.has(link) && el("p", { class: "explained" }, "Part of ", incidentLink(explainers.get(link)), ": ", data.incidents.rows[explainers.get(link) - 1].what, "."),
    el("p", null, meaning ? `${meaning[0].toUpperCase()}${meaning.slice(1)}.` : "",
      r.inferred ? " No message in the capture names this one: it is inferred from what happened." : ""),
    facts([
      ["started", time(r.started)], known(r.joined) && ["all joined", time(r.joined)], ["stable", known(r.stable) ? time(r.stable) : "never, before the next"],
      ["took", duration(r.duration)], known(r.cost) && ["until all worked again", duration(r.cost)],
      known(r.unowned_ms) && ["a partition had no owner for", duration(r.unowned_ms)],
      text(r.last_client) && ["the others waited for", text(r.last_client), known(r.last_by) && `, ${duration(r.last_by)}`],
      known(r.reread) && ["records read again", integer(r.reread)],
      text(r.leader) && ["leader", text(r.leader)], text(r.assignor) && ["assignor", text(r.assignor)],
      text(r.member) && ["member id", text(r.member)],
    ]),
  ];
  if (accepted.length) parts.push(el("h5", null, "What shows it"), lines(accepted, false));
  else parts.push(el("p", { class: "quiet" }, "No evidence is kept for this one."));
  if (rejected.length) parts.push(el("h5", null, "Other readings, rejected"), lines(rejected, true));
  if (r.contributing.length) {
    parts.push(el("h5", null, "What else happened while it was open"),
      el("ul", null, r.contributing.map(([trigger, client, at, number]) => el("li", null, said(`${triggerWords(trigger)} – ${text(client) || "?"}`, number, at)))));
  }
  parts.push(filterLine([...r.evidence.map((e) => e[1]), ...r.contributing.map((c) => c[3])]));
  if (r.members) {
    parts.push(el("h5", null, `Members (${integer(r.member_count)})`));
    const some = (...names) => r.members.some((m) => names.some((name) => known(m[name]) && m[name] !== ""));
    const all = [
      ["member", (m) => [el("strong", null, m.client || m.id), m.instance && ` (${m.instance})`, el("br"), el("span", { class: "quiet id" }, m.id)]],
      some("host") && ["host", (m) => m.host],
      some("software") && ["software", (m) => m.software],
      some("join") && [["join", "number"], (m) => duration(m.join)],
      some("sync") && [["sync", "number"], (m) => duration(m.sync)],
      ["partitions", (m) => changed(m.before, m.now)],
      some("session") && [["session timeout", "number"], (m) => duration(m.session)],
      some("timeout") && [["rebalance timeout", "number"], (m) => duration(m.timeout)],
      some("subscription") && ["subscribed", (m) => m.subscription],
      some("assignors") && ["assignors", (m) => m.assignors],
    ].filter(Boolean);
    const rowOf = (k) => ({ attributes: { class: r.members[k].lane === member ? "chosen" : null }, cells: all.map(([, cell]) => cell(r.members[k])) });
    parts.push(longTable(all.map(([head]) => head), r.members.length, rowOf, 20, { class: "members" }));
    if (r.members.length < r.member_count) parts.push(el("p", { class: "quiet" }, `${integer(r.member_count - r.members.length)} more members in the table “rebalances”.`));
  } else if (r.member_count) {
    parts.push(el("p", { class: "quiet" }, `${plural(r.member_count, "member")}; the page has no room for them, the table “rebalances” has.`));
  }
  if (listSize(r.moved)) parts.push(el("p", null, el("strong", null, `Moved (${integer(listSize(r.moved))}): `), partitionsText(r.moved)));
  if (r.unowned.length) {
    parts.push(el("h5", { class: "bad" }, "Nobody owned"),
      el("ul", null, r.unowned.slice(0, 12).map(([list, since, ms]) => el("li", null, `${partitionsText(list)}: `, el("strong", null, duration(ms)), el("span", { class: "quiet" }, " from ", time(since))))));
  }
  return parts.filter(Boolean);
}

function changed(before, now) {
  if (!known(before) || before === now || !known(now)) return known(now) || known(before) ? partitionsText(known(now) ? now : before) : "not known";
  return [el("span", { class: "before" }, partitionsText(before)), " → ", partitionsText(now)];
}

function eventDetail(k) {
  const E = G.events;
  const name = E.event[k];
  return [el("h4", null, spaced(name), " – ", text(E.client[k]) || text(E.member[k]) || "group"),
    el("p", null, G.event_meanings[name] ? `${G.event_meanings[name]}.` : ""),
    facts([["at", time(E.at[k])], known(E.generation[k]) && ["generation or epoch", E.generation[k]], text(E.member[k]) && ["member id", text(E.member[k])],
      text(E.detail[k]) && ["detail", text(E.detail[k])], known(E.packet[k]) && ["packet", packet(E.packet[k])]]),
    filterLine([E.packet[k]])].filter(Boolean);
}

// ---------------------------------------------------------------- the timeline of a group

const LANE = 26, AXIS = 20, BAND = 40, COLOURS = 8, LANES = 24, NEAREST = 3;
const SMALL = 3; // what is narrower cannot be pointed at: it becomes part of one path, as ten thousand elements are slow

// Rectangles of one kind in one row, put together as far as no gap between them would be seen.
class Run {
  constructor(y, height) { this.y = y; this.height = height; this.from = this.to = -Infinity; this.path = ""; }
  add(from, to) {
    if (from - this.to < 0.5) { this.to = Math.max(this.to, to); return; }
    this.flush();
    [this.from, this.to] = [from, to];
  }
  flush() {
    if (this.to > -Infinity) this.path += `M${this.from.toFixed(1)} ${this.y}h${Math.max(0.5, this.to - this.from).toFixed(1)}v${this.height}H${this.from.toFixed(1)}z`;
  }
  drawn(kind) { this.flush(); return this.path ? draw("path", { class: kind, d: this.path }) : null; }
}
const EVENT_MARKS = {
  silence_begun: "…", fenced: "×", left: "−", commit_refused: "c", heartbeat_failed: "h", join_refused: "j",
  sync_refused: "s", connection_ended: "|", replaced: "=", member_removed: "×", coordinator_moved: "→", coordinator_unavailable: "→",
};

class Timeline {
  constructor(g, choose) {
    this.choose = choose;
    this.lanes = G.groups.lanes[g].map(text);
    this.first = G.groups.first[g];
    this.last = this.first + G.groups.shown[g];
    this.events = [];
    for (let k = G.groups.first_event[g]; k < G.groups.first_event[g] + G.groups.events[g]; k++) {
      if (EVENT_MARKS[G.events.event[k]] && known(G.events.lane[k])) this.events.push(k);
    }
    let low = Infinity, high = -Infinity;
    for (const column of [G.rebalances.started, G.rebalances.joined, G.rebalances.stable, G.rebalances.recovered]) {
      for (let i = this.first; i < this.last; i++) {
        if (known(column[i])) { low = Math.min(low, column[i]); high = Math.max(high, column[i]); }
      }
    }
    for (const k of this.events) { low = Math.min(low, G.events.at[k]); high = Math.max(high, G.events.at[k]); }
    const latest = this.last - 1;
    this.isOpen = latest >= this.first && !known(G.rebalances.stable[latest]) && !G.rebalances.member_count[latest]; // at the end
    if (this.isOpen) high = Math.max(high, data.end);
    if (low > high) { low = 0; high = data.end || 1; }
    const edge = Math.max((high - low) * 0.04, 200000);
    this.all = [low - edge, high + 2 * edge];
    this.window = [...this.all];
    this.mode = "members";
    this.limit = LANES;
    this.selected = null;
    this.canvas = picture((node, width) => this.paint(node, width), { class: "picture timeline", tabindex: "0", role: "group",
      "aria-label": `timeline of group ${G.groups.name[g]}: ${plural(this.last - this.first, "rebalance")}, which the table “Rebalances” below tells in words; drag to move, plus and minus to zoom, arrows to move, 0 for all` });
    const tool = (label, title, act) => el("button", { type: "button", class: "small", title, onclick: act }, label);
    this.modes = ["members", "partitions"].map((mode) => el("button", { type: "button", class: "small", "aria-pressed": String(mode === this.mode), onclick: () => this.show(mode) }, `by ${mode.slice(0, -1)}`));
    this.more = el("button", { type: "button", class: "more", hidden: true, onclick: () => { this.limit *= 4; redraw(this.canvas); } });
    this.node = el("div", { class: "timeline-box" },
      el("div", { class: "tools" }, this.modes, tool("+", "zoom in", () => this.zoom(0.5)), tool("−", "zoom out", () => this.zoom(2)),
        tool("◀", "earlier", () => this.pan(-0.4)), tool("▶", "later", () => this.pan(0.4)), tool("all", "show all", () => this.look(...this.all))),
      this.canvas, this.more,
      this.legend());
    this.gestures();
  }

  // Every colour and letter that is in the picture.
  legend() {
    const entry = (swatch, ...words) => el("span", { class: "entry" }, el("span", { class: `swatch ${swatch}` }), words);
    const triggers = [...new Set(G.rebalances.trigger.slice(this.first, this.last))];
    const events = [...new Set(this.events.map((k) => G.events.event[k]))];
    return el("div", { class: "legend quiet" },
      el("p", null, entry("own", "owns partitions: a colour for each member"), entry("idle", "in the group, without a partition"), entry("open", "rebalance open"),
        entry("gap", "nobody owns"), entry("band-1", "every other generation, with its number on top")),
      el("p", null, entry("mark", "why it rebalanced (click for evidence): "), triggers.map((name) => el("span", { class: "entry" }, el("b", null, triggerMark(name)), ` ${triggerWords(name)}`))),
      events.length > 0 && el("p", null, entry("event", "what a member did or met: "), events.map((name) => el("span", { class: "entry" }, el("b", null, EVENT_MARKS[name]), ` ${spaced(name)}`))));
  }

  // Made when they are first drawn: a group may have ten thousand, and not be looked at.
  get rows() {
    if (!this.made) {
      this.made = [];
      for (let i = this.first; i < this.last; i++) this.made.push(rebalance(i));
      if (this.isOpen) this.made[this.made.length - 1].finish = data.end;
    }
    return this.made;
  }

  show(mode) {
    this.mode = mode;
    ["members", "partitions"].forEach((name, i) => this.modes[i].setAttribute("aria-pressed", String(name === mode)));
    redraw(this.canvas);
  }

  look(begin, end) {
    const [low, high] = this.all;
    const span = Math.min(Math.max(end - begin, 2000), (high - low) * 1.2);
    const middle = Math.min(Math.max((begin + end) / 2, low), high);
    this.window = [middle - span / 2, middle + span / 2];
    redraw(this.canvas);
  }

  zoom(factor, at) {
    const [begin, end] = this.window;
    const around = known(at) ? at : (begin + end) / 2;
    this.look(around - (around - begin) * factor, around + (end - around) * factor);
  }

  pan(share) {
    const [begin, end] = this.window;
    this.look(begin + (end - begin) * share, end + (end - begin) * share);
  }

  select(i) { this.selected = i; redraw(this.canvas); }

  reveal(r) {
    const [begin, end] = this.window;
    if (known(r.begin) && (r.begin < begin || r.begin > end)) this.look(r.begin - (end - begin) / 2, r.begin + (end - begin) / 2);
  }

  // The generation that was at a time: where all are too small to be pointed at, too.
  chooseAt(when) {
    if (when < this.window[0]) return;
    let chosen = this.rows[0];
    for (const r of this.rows) if (known(r.begin) && r.begin <= when) chosen = r;
    this.choose(chosen.index);
  }

  gestures() {
    const node = this.canvas;
    const fingers = new Map();
    let last = null;
    const at = (x) => this.window[0] + ((x - node.getBoundingClientRect().left - this.left) / this.inner) * (this.window[1] - this.window[0]);
    node.addEventListener("pointerdown", (event) => { if (event.button === 0) { fingers.set(event.pointerId, event.clientX); last = null; } });
    node.addEventListener("pointermove", (event) => {
      if (!fingers.has(event.pointerId)) return;
      const before = fingers.get(event.pointerId);
      if (fingers.size === 1) {
        if (!last && Math.abs(event.clientX - before) < 4) return; // a click trembles
        last = last || true;
        node.setPointerCapture(event.pointerId);
        const moved = ((event.clientX - before) / this.inner) * (this.window[1] - this.window[0]);
        fingers.set(event.pointerId, event.clientX);
        this.look(this.window[0] - moved, this.window[1] - moved);
      } else {
        const [a, b] = [...fingers.values()];
        const apart = Math.abs(a - b);
        fingers.set(event.pointerId, event.clientX);
        const [c, d] = [...fingers.values()];
        if (apart > 8 && Math.abs(c - d) > 8) this.zoom(apart / Math.abs(c - d), at((c + d) / 2));
      }
    });
    for (const name of ["pointerup", "pointercancel", "pointerleave"]) node.addEventListener(name, (event) => fingers.delete(event.pointerId));
    node.addEventListener("wheel", (event) => {
      if (event.ctrlKey || event.shiftKey || event.metaKey) {
        event.preventDefault();
        this.zoom(Math.exp((event.deltaY || event.deltaX) * 0.003), at(event.clientX));
      } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        this.pan(event.deltaX / this.inner);
      }
    }, { passive: false });
    node.addEventListener("click", (event) => {
      if (last) return; // it was a drag
      const item = event.target.closest("[data-event], [data-rebalance]");
      if (item && item.dataset.event) this.choose(null, null, Number(item.dataset.event));
      else if (item) this.choose(Number(item.dataset.rebalance), item.dataset.lane && Number(item.dataset.lane));
      else this.chooseAt(at(event.clientX));
    });
    node.addEventListener("dblclick", (event) => this.zoom(0.4, at(event.clientX)));
    node.addEventListener("keydown", (event) => {
      const act = { ArrowLeft: () => this.pan(-0.2), ArrowRight: () => this.pan(0.2), "+": () => this.zoom(0.5), "=": () => this.zoom(0.5),
        "-": () => this.zoom(2), 0: () => this.look(...this.all) }[event.key];
      if (act && event.target === node) { event.preventDefault(); act(); }
    });
  }

  paint(node, width) {
    this.left = width < 560 ? 76 : 150;
    this.inner = Math.max(60, width - this.left - 4);
    const [begin, end] = this.window;
    const x = (when) => this.left + ((when - begin) / (end - begin)) * this.inner;
    const clip = (when) => Math.min(Math.max(x(when), this.left), this.left + this.inner);
    const names = this.mode === "members" ? this.lanes : this.partitions();
    const lanes = Math.min(names.length, this.limit);
    this.more.hidden = lanes === names.length;
    this.more.textContent = `show more lanes (${integer(names.length - lanes)} left)`;
    const top = AXIS + BAND, bottom = top + lanes * LANE;
    const height = bottom + LANE + 4;
    const svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "presentation" });
    svg.append(axis(begin, end, this.left, this.inner, 0, height));
    svg.append(this.bands(x, clip, top, height));
    names.slice(0, lanes).forEach((name, lane) => {
      const y = top + lane * LANE;
      svg.append(draw("line", { class: "grid", x1: 0, x2: width, y1: y, y2: y }), label(name, y + LANE / 2, this.left));
    });
    svg.append(draw("line", { class: "grid", x1: 0, x2: width, y1: bottom, y2: bottom }), label("nobody owns", bottom + LANE / 2, this.left, "bad"));
    if (this.mode === "members") this.members(svg, clip, top, lanes);
    else this.owners(svg, clip, top, names.slice(0, lanes));
    this.gaps(svg, clip, bottom);
    svg.append(this.marks(x, top, height));
    if (this.mode === "members") this.happenings(svg, x, top, lanes);
    node.replaceChildren(svg);
  }

  visible(from, until) { return known(from) && from <= this.window[1] && until >= this.window[0]; }

  // Generations, alternately shaded, and the time in which each rebalance was open.
  bands(x, clip, top, height) {
    const layer = draw("g");
    const open = new Run(AXIS, height - AXIS);
    this.rows.forEach((r, k) => {
      const next = this.rows[k + 1];
      const until = next && known(next.begin) ? next.begin : this.window[1];
      if (!this.visible(r.begin, Math.max(until, r.finish))) return;
      const [from, to] = [clip(r.finish), clip(until)];
      if (to - from >= SMALL) layer.append(draw("rect", { class: `band band-${k % 2}`, x: from, y: AXIS, width: to - from, height: height - AXIS }));
      open.add(clip(r.begin), Math.max(clip(r.begin) + 0.5, from));
      const name = known(r.to) ? String(r.to) : "?";
      if (to - from > name.length * 7 + 8) layer.append(draw("text", { class: "generation", x: from + 4, y: AXIS + 13 }, name));
    });
    return add(layer, [open.drawn("open")]);
  }

  marks(x, top, height) {
    const layer = draw("g");
    let last = -Infinity, wordsUntil = -Infinity, hidden = 0;
    const placed = [];
    for (const r of this.rows) {
      if (!this.visible(r.begin, r.begin) || (x(r.begin) - last < NEAREST && r.index !== this.selected)) { hidden++; continue; }
      last = x(r.begin);
      placed.push(r);
    }
    placed.forEach((r, k) => {
      const at = x(r.begin);
      const next = k + 1 < placed.length ? x(placed[k + 1].begin) : this.left + this.inner;
      const words = triggerWords(r.trigger) + (text(r.client) ? ` – ${text(r.client)}` : "");
      const item = draw("g", { class: `rebalance ${r.certainty || ""}${r.index === this.selected ? " selected" : ""}`, "data-rebalance": r.index, tabindex: "0", role: "button",
        "aria-label": `${triggerWords(r.trigger)}, ${text(r.client)}`,
        onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); this.choose(r.index); } } });
      item.append(draw("title", null, `${clock(r.begin)} ${known(r.from) ? r.from : "?"} → ${known(r.to) ? r.to : "?"}\n${words} (${r.certainty})\ntook ${duration(r.duration)}`));
      const broad = Math.min(Math.max(10, x(r.finish) - at), Math.max(6, next - at));
      item.append(draw("rect", { class: "hit", x: at - 3, y: AXIS, width: broad + 3, height: height - AXIS }));
      const small = next - at < 14;
      if (next - at >= 6 || r.index === this.selected) item.append(draw("line", { class: "start", x1: at, x2: at, y1: AXIS + 16, y2: height }));
      if (!small || r.index === this.selected) {
        item.append(draw("circle", { cx: at, cy: AXIS + 27, r: 9 }), draw("text", { class: "mark", x: at, y: AXIS + 31 }, triggerMark(r.trigger)));
        const room = Math.floor((next - at - 24) / 6.9);
        if (room >= 7 && at > wordsUntil) {
          const shown = words.length <= room ? words : `${words.slice(0, room - 1)}…`;
          item.append(draw("text", { class: "words", x: at + 13, y: AXIS + 31 }, shown));
        }
      } else item.append(draw("circle", { cx: at, cy: AXIS + 27, r: 2.5 }));
      layer.append(item);
    });
    return layer;
  }

  members(svg, clip, top, lanes) {
    const layer = draw("g");
    const small = [], gaps = [];
    for (let lane = 0; lane < lanes; lane++) {
      small.push(new Run(top + lane * LANE + 4, LANE - 8));
      gaps.push(new Run(top + lane * LANE + LANE / 2 - 2, 4));
    }
    const before = new Map();
    for (const r of this.rows) {
      // Who was lost owned nothing any more from its last word on, though nobody knew that yet.
      for (const [list, since, ms] of r.unowned) {
        if (since > r.begin - 50000 || !this.visible(since, since + ms * 1000)) continue;
        const lost = new Set(partitionNames(list));
        for (const [lane, m] of before) {
          if (known(m.end) && since < m.end && partitionNames(m.now).some((name) => lost.has(name))) gaps[lane].add(clip(since), clip(m.end));
        }
      }
      const now = new Map();
      for (const m of r.members || []) {
        if (m.lane >= lanes) continue;
        now.set(m.lane, m);
        const y = top + m.lane * LANE;
        const previous = before.get(m.lane);
        if (previous && known(previous.end) && known(m.begin) && previous.end < m.begin && listSize(previous.now) && this.visible(previous.end, m.begin)) {
          gaps[m.lane].add(clip(previous.end), clip(m.begin));
        }
        const until = known(m.end) ? m.end : this.window[1] + 1;
        if (!known(m.begin) || !this.visible(m.begin, until)) continue;
        const from = clip(m.begin), to = clip(until);
        const held = listSize(m.now);
        if (to - from < SMALL) { if (held) small[m.lane].add(from, to); continue; }
        layer.append(bar(from, to, y, held === 0 ? "idle" : `own c${m.lane % COLOURS}`,
          held === 0 ? "no partition" : partitionsText(m.now), `${m.client || m.id}\n${partitionsText(m.now)}`, r.index, m.lane));
      }
      before.clear();
      for (const [lane, m] of now) before.set(lane, m);
    }
    svg.append(layer);
    add(svg, small.map((run, lane) => run.drawn(`own c${lane % COLOURS}`)));
    add(svg, gaps.map((run) => run.drawn("gap")));
  }

  partitions() {
    if (!this.partitionNames) {
      const names = new Set();
      for (const r of this.rows) for (const m of r.members || []) for (const name of partitionNames(m.now)) { if (names.size < 5000) names.add(name); }
      this.partitionNames = [...names].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    }
    return this.partitionNames;
  }

  owners(svg, clip, top, names) {
    const layer = draw("g");
    const lane = new Map(names.map((name, i) => [name, i]));
    const small = names.map((_, i) => new Run(top + i * LANE + 4, LANE - 8));
    const gaps = names.map((_, i) => new Run(top + i * LANE + 7, LANE - 14));
    for (const r of this.rows) {
      for (const m of r.members || []) {
        const until = known(m.end) ? m.end : this.window[1] + 1;
        if (!known(m.begin) || !this.visible(m.begin, until)) continue;
        const from = clip(m.begin), to = clip(until);
        for (const name of partitionNames(m.now)) {
          const at = lane.get(name);
          if (at === undefined) continue;
          if (to - from < SMALL) small[at].add(from, to);
          else layer.append(bar(from, to, top + at * LANE, `own c${m.lane % COLOURS}`, this.lanes[m.lane], `${name}\n${this.lanes[m.lane]}`, r.index, m.lane));
        }
      }
      for (const [list, since, ms] of r.unowned) {
        const until = since + ms * 1000;
        if (!this.visible(since, until)) continue;
        for (const name of partitionNames(list)) if (lane.has(name)) gaps[lane.get(name)].add(clip(since), clip(until));
      }
    }
    svg.append(layer);
    add(svg, small.map((run) => run.drawn("own mixed")));
    add(svg, gaps.map((run) => run.drawn("gap")));
  }

  gaps(svg, clip, y) {
    const layer = draw("g");
    const small = new Run(y + 4, LANE - 8);
    for (const r of this.rows) {
      for (const [list, since, ms] of r.unowned) {
        const until = since + ms * 1000;
        if (!this.visible(since, until)) continue;
        const from = clip(since), to = clip(until);
        if (to - from < SMALL) small.add(from, to);
        else layer.append(bar(from, to, y, "gap", partitionsText(list), `${partitionsText(list)}\nnobody for ${duration(ms)}`, r.index));
      }
    }
    svg.append(layer);
    add(svg, [small.drawn("gap")]);
  }

  happenings(svg, x, top, lanes) {
    const layer = draw("g");
    const lastIn = new Array(lanes).fill(-Infinity);
    for (const k of this.events) {
      const lane = G.events.lane[k], at = G.events.at[k];
      if (lane >= lanes || !this.visible(at, at) || x(at) - lastIn[lane] < 5) continue;
      lastIn[lane] = x(at);
      const item = draw("g", { class: "event", "data-event": k });
      item.append(draw("title", null, `${clock(at)} ${spaced(G.events.event[k])}\n${text(G.events.detail[k])}`),
        draw("rect", { x: x(at) - 6, y: top + lane * LANE + 1, width: 12, height: 12, rx: 3 }),
        draw("text", { x: x(at), y: top + lane * LANE + 10.5 }, EVENT_MARKS[G.events.event[k]]));
      layer.append(item);
    }
    svg.append(layer);
  }
}

function bar(from, to, y, kind, words, title, index, lane) {
  const item = draw("g", { class: "bar", "data-rebalance": index, "data-lane": lane }, draw("title", null, title));
  item.append(draw("rect", { class: kind, x: from, y: y + 4, width: Math.max(1, to - from), height: LANE - 8, rx: Math.min(3, (to - from) / 3) }));
  const room = Math.floor((to - from - 8) / 6.3);
  if (room >= 3) item.append(draw("text", { class: "within", x: from + 4, y: y + LANE / 2 + 4 }, words.length <= room ? words : `${words.slice(0, room - 1)}…`));
  return item;
}

function label(name, y, width, kind) {
  const room = Math.floor((width - 8) / 6.4);
  return draw("text", { class: `lane ${kind || ""}`, x: 2, y: y + 4 }, draw("title", null, name), name.length <= room ? name : `${name.slice(0, room - 1)}…`);
}

const STEPS = [1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 1.5e7, 3e7, 6e7, 1.2e8, 3e8, 6e8, 9e8, 1.8e9, 3.6e9, 7.2e9, 1.08e10, 2.16e10, 4.32e10, 8.64e10, 6.048e11];

function axis(begin, end, left, inner, y, height) {
  const layer = draw("g", { class: "axis" });
  const most = Math.max(2, Math.floor(inner / 90));
  const step = STEPS.find((one) => (end - begin) / one <= most) || STEPS[STEPS.length - 1];
  // Ticks stand at whole steps of the clock, not of the capture.
  const offset = ((data.zero_ms * 1000) % step + step) % step;
  const digits = step >= 1e6 ? 0 : 3;
  for (let at = Math.ceil((begin + offset) / step) * step - offset; at <= end; at += step) {
    const x = left + ((at - begin) / (end - begin)) * inner;
    layer.append(draw("line", { class: "tick", x1: x, x2: x, y1: y + 14, y2: height }));
    if (x < left + inner - (digits ? 80 : 50)) layer.append(draw("text", { x: x + 2, y: y + 11 }, clock(at, digits)));
  }
  return layer;
}

// ---------------------------------------------------------------- latency

function latency() {
  const L = data.latency;
  if (!L) { section("latency", "Latency", absent("latency")); return; }
  const shown = section("latency", "Latency");
  if (!L.rows.length) { shown.append(el("p", { class: "quiet" }, "No answered request was seen.")); return; }
  const rows = L.rows.map((r) => ({ cells: [el("strong", null, r.api), integer(r.count), ...r.percentiles.map(duration)] }));
  shown.append(el("p", { class: "quiet" }, "From a request's first byte to its answer's last, as captured. Percentiles are within 1 %."),
    table(["API", ["answers", "number"], ...["p50", "p90", "p99", "p99.9", "max"].map((name) => [name, "number"])], rows, { class: "latency" }));
  const split = L.rows.filter((r) => r.parts.length);
  if (split.length) {
    const longest = Math.max(...split.flatMap((r) => r.parts.map((part) => part.percentiles[2])));
    shown.append(el("h3", null, "Where the time went"),
      el("p", { class: "quiet" }, "A Fetch waits for data as long as its client asked; JoinGroup and SyncGroup wait for other members. What is left is the network (a round trip, or the time until the request was acknowledged, if that came late) and the broker with its disk; all times are those of the capture point. Since Kafka 2.0 a throttled answer comes at once and the delay after it: that part lies beside the whole."),
      el("p", { class: "legend quiet" }, "Bars: p99 of the part, against the longest of all. ", el("span", { class: "entry" }, el("span", { class: "swatch part" }), "as asked, or short"),
        el("span", { class: "entry" }, el("span", { class: "swatch part warn" }), `p99 of ${duration(L.slow_ms)} or more that nobody asked for`), el("span", { class: "entry" }, el("span", { class: "swatch part bad" }), `of ${duration(L.long_ms)} or more`)),
      table(["API", "", "part", ["share of time", "number"], ["p50", "number"], ["p99", "number"], ["max", "number"]], split.flatMap((r) =>
        r.parts.map((part, i) => ({ cells: [i ? "" : el("strong", null, r.api), timeBar(part, longest), L.part_names[part.part] || spaced(part.part),
          known(part.share) ? `${(part.share * 100).toFixed(part.share < 0.1 ? 1 : 0)} %` : "", ...[0, 2, 4].map((k) => duration(part.percentiles[k]))] }))), { class: "split" }));
  }
  if (L.heats.length) {
    shown.append(el("h3", null, "Over time"), el("p", { class: "quiet" }, "Each cell: how many answers took so long in that time; stronger is more."));
    const maps = L.heats.map((heat) => el("figure", null, el("figcaption", null, el("strong", null, heat.api), " ", L.part_names[heat.part] || heat.part),
      picture((node, width) => heatMap(node, width, heat, L), { class: "picture heat", "data-api": heat.api })));
    shown.append(el("div", { class: "figures" }, maps.slice(0, 6)));
    if (maps.length > 6) shown.append(el("details", null, el("summary", null, `${maps.length - 6} more APIs`), el("div", { class: "figures" }, maps.slice(6))));
  }
  const ranked = (title, note, rows) => {
    if (rows.length) shown.append(el("h3", null, title), el("p", { class: "quiet" }, note),
      longTable(["API", "", "", ["count", "number"], ["p50", "number"], ["p99", "number"], ["max", "number"]], rows.length,
        (i) => ({ cells: [rows[i][0], el("span", { class: "quiet" }, rows[i][1]), rows[i][2], integer(rows[i][3]), ...rows[i].slice(4).map(duration)] }), 10));
  };
  ranked("Slowest by broker, client and topic", "Without what was waited for as asked, throttled or transferred.", L.slowest);
  ranked("Slow applications", "Time between an answer and the client's next request of the same kind: spent in the client, not in the broker.", L.applications);
}

function timeBar(part, longest) {
  return draw("svg", { width: 80, height: 10, class: "share", "aria-hidden": "true" },
    draw("rect", { class: "ground", width: 80, height: 10 }), draw("rect", { class: `part ${part.tone}`, width: Math.max(1, 80 * part.percentiles[2] / (longest || 1)), height: 10 }));
}

const HEAT_ROWS = 18;

function heatMap(node, width, heat, L) {
  const left = 56, inner = Math.max(60, width - left - 4), cell = 9;
  let low = Infinity, high = -Infinity, most = 1;
  for (let i = 0; i < heat.cells.length; i += 3) {
    low = Math.min(low, heat.cells[i + 1]); high = Math.max(high, heat.cells[i + 1]); most = Math.max(most, heat.cells[i + 2]);
  }
  low = Math.max(low, high - HEAT_ROWS + 1); // what took less is put together: far below, nobody looks
  const rows = high - low + 1;
  const height = 18 + rows * cell + 4;
  const begin = L.begin, end = L.begin + L.bins * L.width;
  const highest = heat.cells.reduce((at, _, i) => (i % 3 === 1 && (at < 0 || heat.cells[i] > heat.cells[at]) ? i : at), -1);
  const svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `${heat.api}, ${L.part_names[heat.part]}, over time: the longest took ${duration(L.edges[high])} or more, at ${clock(begin + heat.cells[highest - 1] * L.width, 0)}` }, axis(begin, end, left, inner, 0, height));
  const broad = inner / L.bins;
  const sums = new Map();
  for (let i = 0; i < heat.cells.length; i += 3) {
    const key = heat.cells[i] * 1000 + Math.max(low, heat.cells[i + 1]);
    sums.set(key, (sums.get(key) || 0) + heat.cells[i + 2]);
  }
  const layer = draw("g", { class: "cells" });
  for (const [key, count] of sums) {
    const bin = Math.floor(key / 1000), row = key % 1000;
    most = Math.max(most, count);
    layer.append(draw("rect", { x: left + bin * broad, y: 18 + (high - row) * cell, width: Math.max(1, broad - 0.5), height: cell - 0.5,
      "fill-opacity": (0.15 + 0.85 * Math.log1p(count) / Math.log1p(most)).toFixed(2) },
    draw("title", null, `${clock(begin + bin * L.width, 0)}: ${plural(count, "answer")} ${row === low ? "below" : `of ${duration(L.edges[row])} to`} ${duration(L.edges[row + 1])}`)));
  }
  svg.append(layer);
  let last = -Infinity;
  for (let row = high; row >= low; row--) {
    const y = 18 + (high - row) * cell + cell - 1;
    if (y - last < 14) continue;
    last = y;
    svg.append(draw("text", { class: "lane", x: 2, y }, row === low && low ? "less" : duration(L.edges[row])));
  }
  node.replaceChildren(svg);
}

// ---------------------------------------------------------------- errors

function errors() {
  const E = data.errors;
  if (!E) { section("errors", "Errors", absent("error_histogram")); return; }
  const shown = section("errors", "Errors");
  const group = (rows, title, kind) => {
    if (!rows.length) return;
    const most = Math.max(...rows.map((r) => r.count));
    const rowOf = (i) => {
      const r = rows[i];
      return { attributes: { class: kind }, cells: [
        [el("strong", null, r.error), el("br"), el("span", { class: "quiet" }, `${r.api} · code ${r.code}${r.retriable ? " · retriable" : ""}`)],
        [integer(r.count), draw("svg", { width: 60, height: 8, class: "share", "aria-hidden": "true" }, draw("rect", { class: kind, width: Math.max(1, 60 * r.count / most), height: 8 }))],
        sparkline(r.times, E), [r.meaning, r.advice && el("p", { class: "advice" }, r.advice)],
        el("ul", { class: "plain" }, r.where.map(([what, name, count]) => el("li", null, el("span", { class: "quiet" }, `${what} `), name, el("span", { class: "quiet" }, ` ${integer(count)}`)))) ] };
    };
    shown.append(el("h3", null, title), longTable(["error", ["count", "number"], "when", "meaning, and what to do", "where"], rows.length, rowOf, 15, { class: "errors" }));
  };
  if (!E.trouble.length) shown.append(el("p", { class: "good" }, "No error that means trouble was answered."));
  group(E.trouble, "Trouble", "trouble");
  group(E.ordinary, "Ordinary in a handshake", "ordinary");
  if (E.left_out) shown.append(el("p", { class: "quiet" }, `${plural(E.left_out, "more kind")} of error in the table “error_histogram”.`));
}

function sparkline(times, E) {
  const most = Math.max(1, ...times.map((t) => t[1]));
  const label = times.length ? `from ${clock(E.begin + times[0][0] * E.width, 0)} to ${clock(E.begin + times[times.length - 1][0] * E.width, 0)}` : "no time known";
  const svg = draw("svg", { width: 120, height: 20, class: "spark", role: "img", "aria-label": label }, draw("line", { class: "grid", x1: 0, x2: 120, y1: 19.5, y2: 19.5 }));
  for (const [bin, count] of times) {
    const tall = 3 + 16 * count / most;
    svg.append(draw("rect", { x: bin * 120 / E.bins, y: 20 - tall, width: Math.max(1.5, 120 / E.bins - 0.5), height: tall },
      draw("title", null, `${clock(E.begin + bin * E.width, 0)}: ${integer(count)}`)));
  }
  return svg;
}

// ---------------------------------------------------------------- lines over time: lag, throughput

function lineChart(lines, format, steps) {
  return picture((node, width) => {
    const left = 62, inner = Math.max(60, width - left - 6), height = 150, floor = height - 6, top = 20;
    let begin = Infinity, end = -Infinity, most = 0;
    for (const line of lines) {
      for (const at of line.at) { begin = Math.min(begin, at); end = Math.max(end, at); }
      for (const value of line.values) most = Math.max(most, value || 0);
    }
    if (begin > end) return;
    if (begin === end) { begin -= 500000; end += 500000; }
    most = most || 1;
    const x = (at) => left + ((at - begin) / (end - begin)) * inner;
    const y = (value) => floor - (value / most) * (floor - top);
    const peaks = lines.map((line) => {
      const k = line.values.reduce((best, value, i) => ((value || 0) > (line.values[best] || 0) ? i : best), 0);
      return `${line.name}: at most ${format(line.values[k] || 0)}, at ${clock(line.at[k], 0)}`;
    });
    const svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `lines over time, ${clock(begin, 0)} to ${clock(end, 0)}. ${peaks.join(". ")}` },
      axis(begin, end, left, inner, 0, height));
    for (const share of [0, 0.5, 1]) {
      svg.append(draw("line", { class: "grid", x1: left, x2: left + inner, y1: y(most * share), y2: y(most * share) }),
        draw("text", { class: "lane", x: 2, y: y(most * share) + 4 }, format(most * share)));
    }
    lines.forEach((line, i) => {
      let path = "";
      line.at.forEach((at, k) => {
        const here = `${x(at).toFixed(1)} ${y(line.values[k] || 0).toFixed(1)}`;
        path += !path ? `M${here}` : steps ? `H${x(at).toFixed(1)}V${y(line.values[k] || 0).toFixed(1)}` : `L${here}`;
      });
      svg.append(draw("path", { class: `line l${i % COLOURS}`, d: path }));
      if (line.at.length === 1) svg.append(draw("circle", { class: `dot l${i % COLOURS}`, cx: x(line.at[0]), cy: y(line.values[0] || 0), r: 3 }));
    });
    const cursor = draw("line", { class: "cursor", y1: 14, y2: height, visibility: "hidden" });
    svg.append(cursor);
    const reading = el("div", { class: "reading quiet" });
    const legend = (at) => reading.replaceChildren(...lines.map((line, i) => {
      let value = "";
      if (known(at)) {
        let k = -1;
        while (k + 1 < line.at.length && line.at[k + 1] <= at) k++;
        value = k < 0 ? " –" : ` ${format(line.values[k] || 0)}`;
      }
      return el("span", { class: "entry" }, el("span", { class: `swatch l${i % COLOURS}` }), line.name, value);
    }), known(at) ? el("span", { class: "entry" }, clock(at)) : "");
    legend(null);
    svg.addEventListener("pointermove", (event) => {
      const at = begin + ((event.clientX - svg.getBoundingClientRect().left - left) / inner) * (end - begin);
      if (at < begin || at > end) return;
      cursor.setAttribute("x1", x(at)); cursor.setAttribute("x2", x(at)); cursor.setAttribute("visibility", "visible");
      legend(at);
    });
    node.replaceChildren(svg, reading);
  }, { class: "picture chart" });
}

function lag() {
  const L = data.lag;
  if (!L) { section("lag", "Lag", absent("lag")); return; }
  const shown = section("lag", "Lag");
  if (!L.groups.length) { shown.append(el("p", { class: "quiet" }, "No lag could be worked out: it takes fetches, or commits and an end of the log.")); return; }
  const one = (group) => el("div", { class: "lag-group", "data-group": group.name }, el("h3", { class: "group-name" }, group.name),
    lineChart(group.lines, integer, true),
    longTable(["partition", ["committed", "number"], ["end of log", "number"], ["lag at the end", "number"], ["highest", "number"]], group.rows.length,
      (i) => ({ cells: [group.rows[i][0], ...group.rows[i].slice(1).map(integer)] }), 8));
  L.groups.slice(0, 3).forEach((group) => shown.append(one(group)));
  if (L.groups.length > 3) {
    const rest = el("details", null, el("summary", null, `${L.groups.length - 3} more groups`));
    rest.addEventListener("toggle", () => { if (rest.open && rest.children.length === 1) rest.append(...L.groups.slice(3).map(one)); });
    shown.append(rest);
  }
  if (L.left_out) shown.append(el("p", { class: "quiet" }, `${plural(L.left_out, "more group")} in the table “lag”.`));
}

function throughput() {
  const T = data.throughput;
  if (!T) { section("throughput", "Throughput", absent("throughput")); return; }
  const shown = section("throughput", "Throughput");
  if (!T.rows.length) { shown.append(el("p", { class: "quiet" }, "No records were sent or fetched.")); return; }
  if (T.lines.length) shown.append(lineChart(T.lines, (value) => `${size(value)}/s`, false));
  const heads = ["topic", "direction", "client", ["records", "number"], ["bytes", "number"], ["batches", "number"], ["records in a batch", "number"], ["of one record", "number"],
    ["requests", "number"], ["empty", "number"], ["compressed to", "number"], "codecs"];
  shown.append(longTable(heads, T.rows.length, (i) => {
    const [topic, direction, client, records, bytes, batches, single, requests, empty, ratio, codecs] = T.rows[i];
    return { cells: [topic, direction, client || "", integer(records), size(bytes), integer(batches), batches ? (records / batches).toFixed(1) : "", integer(single),
      integer(requests), integer(empty), known(ratio) ? `${(ratio * 100).toFixed(0)} %` : "", codecs] };
  }, 12));
  if (T.left_out) shown.append(el("p", { class: "quiet" }, `${plural(T.left_out, "more row")} in the table “throughput”.`));
}

// ---------------------------------------------------------------- coverage

function coverage() {
  const C = data.coverage;
  const shown = section("coverage", "Coverage: what was not seen or not understood");
  shown.append(facts(C.facts));
  if (!C.issues) { shown.append(absent("issues")); return; }
  if (!C.issues.length) { shown.append(el("p", { class: "good" }, "Nothing was lost, cut or left undecoded.")); return; }
  shown.append(table(["what", ["count", "number"], "meaning", "what it weakens", "first"], C.issues.map((issue) => ({ cells: [
    el("strong", null, spaced(issue.kind)), integer(issue.count), issue.meaning, issue.weakens, [issue.detail, " ", packet(issue.packet)]] })), { class: "issues" }));
}

// ---------------------------------------------------------------- the page as a whole

function theme() {
  const button = document.getElementById("theme");
  const dark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const name = () => { button.textContent = dark() ? "☀ light" : "☾ dark"; };
  button.addEventListener("click", () => { document.documentElement.dataset.theme = dark() ? "light" : "dark"; name(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  name();
}

addEventListener("beforeprint", () => {
  for (const node of document.querySelectorAll("details")) node.open = true;
  for (const node of pictures.keys()) if (node.isConnected && !pictures.get(node).width) redraw(node);
});

// #incident-1, #finding-id, #latency; #group/shop and #group/shop/7, which is the rebalance to generation 7.
function go() {
  let target = null;
  const [kind, name, generation] = location.hash.slice(1).split("/");
  if (kind === "group" && known(name) && G) {
    let wanted;
    try { wanted = decodeURIComponent(name); } catch { return; }
    const g = G.groups.name.indexOf(wanted);
    if (g >= 0) openGroup(g, null, null, generation);
    return;
  }
  target = document.getElementById(location.hash.slice(1));
  if (!target) return;
  for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
  target.scrollIntoView({ block: "start" });
}
addEventListener("hashchange", go);

theme();
for (const part of [head, incidents, tiles, findings, groupSection, latency, errors, lag, throughput, coverage]) part();
go();
document.documentElement.dataset.ready = "yes";
})();
