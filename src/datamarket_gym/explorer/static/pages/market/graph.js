// The evidence graph: identities as discs of their units, edges as lines coloured by reason; pointed at, it is told in words.
import { seen, name, fill, svg, el } from "../../lib/dom.js";

const GOLDEN = Math.PI * (3 - Math.sqrt(5));
const LABEL = 34; // height of the two lines of words under a disc
const LETTER = 6.6; // width of a letter of them, about
const GAP = 10;
const MARGIN = 8; // room for the ring around an attacker's disc
const MOST_AROUND = 16; // identities on an ellipse
const NEAREST_SPOTS = 600; // units of one identity up to which matched ones choose their side

/** {width, height, groups: [{x, y, r, units}], x, y: per unit, spot: radius of a unit}. */
function place(graph, width) {
  const groups = graph.identities.map((identity, at) => ({ at, identity, units: [] }));
  graph.units.forEach((unit, row) => groups[unit.identity].units.push(row));
  const spacing = spaced(groups, width);
  for (const group of groups) {
    group.r = Math.max(spacing * Math.sqrt(group.units.length), 2 * spacing) + 3;
    group.box = Math.max(2 * group.r, shown(group.identity).length * LETTER) + GAP;
  }
  const height = groups.length > MOST_AROUND ? inRows(ordered(groups), width) : around(ringOf(groups), width);
  const centre = { x: width / 2, y: height / 2 };
  const x = new Float64Array(graph.units.length);
  const y = new Float64Array(graph.units.length);
  const matches = matched(graph);
  for (const group of groups) fillDisc(group, { graph, groups, matches, spacing, centre, x, y });
  return { width, height, groups, x, y, spot: Math.min(Math.max(spacing * 0.62, 1.1), 4) };
}

/** Names in order, provider_2 before provider_10. */
export const byNumber = new Intl.Collator("en", { numeric: true }).compare;

/** A number of pixels with one decimal: short paths, and the same ones each time. */
const px = (value) => Math.round(value * 10) / 10;

/** A name as the picture writes it: long ones are cut, the words below the picture say them in full. */
function shown(identity) {
  const letters = [...seen(identity.name)];
  return letters.length > 18 ? `${letters.slice(0, 17).join("")}…` : letters.join("");
}

// The attacker's names first, others by name, 2 before 10.
function ordered(groups) {
  const first = ({ identity }) => (identity.attacker ? 0 : 1);
  return groups.toSorted((a, b) => first(a) - first(b) || byNumber(a.identity.name, b.identity.name));
}

// Half of the attacker's names at the end, so that they surround the top.
function ringOf(groups) {
  const sorted = ordered(groups);
  const half = Math.floor(groups.filter((group) => group.identity.attacker).length / 2);
  return [...sorted.slice(half), ...sorted.slice(0, half)];
}

// Rows of discs, where an ellipse of so many would be mostly empty.
function inRows(sorted, width) {
  const wide = Math.max(...sorted.map((group) => group.box));
  const radius = Math.max(...sorted.map((group) => group.r));
  const columns = Math.max(1, Math.floor(width / wide));
  const tall = 2 * radius + LABEL + 3 * MARGIN;
  sorted.forEach((group, at) => {
    group.x = ((at % columns) + 0.5) * (width / columns);
    group.y = Math.floor(at / columns) * tall + radius + MARGIN;
  });
  return Math.ceil(sorted.length / columns) * tall;
}

// How far units are apart: the largest disc may be so wide, and the less the more of them there are.
function spaced(groups, width) {
  const most = Math.max(...groups.map((group) => group.units.length), 1);
  const share = Math.min(1, 12 / groups.length);
  return Math.min(6, ((width * 0.085 + 8) * share) / Math.sqrt(most));
}

// Sets x and y of every group; the ellipse is as wide as the page and grows in height until nothing overlaps.
function around(ring, width) {
  const widest = Math.max(...ring.map((group) => group.box));
  const tallest = Math.max(...ring.map((group) => group.r));
  const rx = Math.max((width - widest) / 2, 1);
  for (let ry = Math.min(rx, 150); ; ry = ry * 1.05 + 4) {
    put(ring, rx, ry, width / 2, ry + tallest + MARGIN);
    if (apart(ring)) return 2 * ry + 2 * tallest + LABEL + MARGIN;
  }
}

// At equal distances along the ellipse, each with room in proportion to its box, from the top on.
function put(ring, rx, ry, cx, cy) {
  const steps = 720;
  const length = new Float64Array(steps + 1);
  const at = (step) => {
    const angle = (2 * Math.PI * step) / steps - Math.PI / 2;
    return [cx + rx * Math.cos(angle), cy + ry * Math.sin(angle)];
  };
  for (let step = 1; step <= steps; step++) {
    const [[a, b], [c, d]] = [at(step - 1), at(step)];
    length[step] = length[step - 1] + Math.hypot(c - a, d - b);
  }
  const whole = ring.reduce((sum, group) => sum + group.box, 0);
  let before = -ring[0].box / 2; // the first one's middle is the top
  let step = 0;
  for (const group of ring) {
    const goal = ((before + group.box / 2) / whole) * length[steps];
    while (length[step] < goal) step += 1;
    [group.x, group.y] = at(step);
    before += group.box;
  }
}

function apart(ring) {
  for (let i = 0; i < ring.length; i++) {
    for (let j = i + 1; j < ring.length; j++) {
      const [a, b] = [ring[i], ring[j]];
      const beside = Math.abs(a.x - b.x) >= (a.box + b.box) / 2;
      if (!beside && Math.abs(a.y - b.y) < a.r + b.r + LABEL + MARGIN) return false;
    }
  }
  return true;
}

/** Per unit, the units that an edge matches it to. */
function matched(graph) {
  const matches = new Map();
  const add = (a, b) => (matches.get(a) ?? matches.set(a, []).get(a)).push(b);
  for (const { left, right } of graph.edges) {
    add(left, right);
    add(right, left);
  }
  return matches;
}

function fillDisc(group, { graph, groups, matches, spacing, centre, x, y }) {
  const spots = group.units.map((_, i) => {
    const r = spacing * Math.sqrt(i + 0.5);
    return [group.x + r * Math.cos(i * GOLDEN), group.y + r * Math.sin(i * GOLDEN)];
  });
  const free = new Set(spots.keys());
  const take = (row, spot) => {
    [x[row], y[row]] = spots[spot];
    free.delete(spot);
  };
  const outward = group.units.filter((row) => matches.has(row));
  const rest = group.units.filter((row) => !matches.has(row));
  if (group.units.length > NEAREST_SPOTS) {
    group.units.forEach(take);
    return;
  }
  for (const row of outward) take(row, nearest(spots, free, target(row)));
  // The others from the far side on, so that they keep clear of the matches.
  for (const row of rest) take(row, free.values().next().value);

  function target(row) {
    const ends = matches.get(row).map((other) => groups[graph.units[other].identity]).filter((end) => end !== group);
    const mean = (key) => ends.reduce((sum, end) => sum + end[key], 0) / ends.length;
    const [tx, ty] = ends.length ? [mean("x"), mean("y")] : [centre.x, centre.y];
    const far = Math.hypot(tx - group.x, ty - group.y) || 1;
    return [group.x + ((tx - group.x) / far) * group.r, group.y + ((ty - group.y) / far) * group.r];
  }
}

function nearest(spots, free, [tx, ty]) {
  let best = -1;
  let least = Infinity;
  for (const spot of free) {
    const far = (spots[spot][0] - tx) ** 2 + (spots[spot][1] - ty) ** 2;
    if (far < least) [best, least] = [spot, far];
  }
  return best;
}

/** The looks of units: their class, what they mean, and the colour that a canvas paints them in. */
const LOOKS = {
  "unit": { words: "a unit", colour: "--main" },
  "unit attacker": { words: "a unit of the attacker's own", colour: "--alt" },
  "unit false": { words: "not genuine: copied, changed or made up", colour: "--alt", hollow: true },
  "unit aside": { words: "set aside: a validation row", colour: "--soft", hollow: true },
};

function lookOf(graph, unit) {
  if (unit.cluster === null) return "unit aside";
  if (!unit.genuine) return "unit false";
  return graph.identities[unit.identity].attacker ? "unit attacker" : "unit";
}

const reasonOf = (reason) => `reason-${reason % 8}`;

/** A match's path: straight within an identity, bent towards the middle of the picture between two. */
function line(graph, laid, { left, right }) {
  const [ax, ay, bx, by] = [laid.x[left], laid.y[left], laid.x[right], laid.y[right]].map(px);
  if (graph.units[left].identity === graph.units[right].identity) return `M${ax} ${ay}L${bx} ${by}`;
  const mx = px(((ax + bx) / 2) * 0.75 + (laid.width / 2) * 0.25);
  const my = px(((ay + by) / 2) * 0.75 + (laid.height / 2) * 0.25);
  return `M${ax} ${ay}Q${mx} ${my} ${bx} ${by}`;
}

/** The paths of some matches, by reason. */
function lines(graph, laid, edges) {
  const paths = graph.reasons.map(() => []);
  for (const edge of edges) paths[edge.reason].push(line(graph, laid, edge));
  return paths.map((parts) => parts.join(""));
}

/** A unit's path, a circle. */
function round(laid, row, more = 0) {
  const r = px(laid.spot + more);
  return `M${px(laid.x[row] - r)} ${px(laid.y[row])}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;
}

/** A canvas under the picture, painted once it is on the page, where it has colours. */
function paint(graph, laid) {
  const canvas = document.createElement("canvas");
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(laid.width * scale);
  canvas.height = Math.round(laid.height * scale);
  canvas.className = "evidence";
  canvas.setAttribute("aria-hidden", "true");
  requestAnimationFrame(() => brush(canvas, scale, graph, laid));
  return canvas;
}

function brush(canvas, scale, graph, laid) {
  const colours = getComputedStyle(canvas);
  const colour = (variable) => colours.getPropertyValue(variable).trim();
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, laid.width, laid.height);
  pen.globalAlpha = 0.4;
  lines(graph, laid, graph.edges).forEach((path, reason) => {
    pen.strokeStyle = colour(`--${reasonOf(reason)}`);
    pen.stroke(new Path2D(path));
  });
  pen.globalAlpha = 0.9;
  graph.units.forEach((unit, row) => {
    const look = LOOKS[lookOf(graph, unit)];
    const square = [laid.x[row] - laid.spot, laid.y[row] - laid.spot, 2 * laid.spot, 2 * laid.spot];
    pen.fillStyle = pen.strokeStyle = colour(look.colour);
    if (look.hollow) pen.strokeRect(...square);
    else pen.fillRect(...square);
  });
}

const REASONS = {
  exact_hash: "identical content",
  cosine: "cosine similarity",
  "cosine, spanning": "cosine similarity (those that hold a cluster together)",
  lineage: "nearest earlier unit",
  pool: "one pool for all",
  perceptual: "the image's hash",
  minhash: "shared word sequences",
  words: "shared words",
  oracle_latent: "the same owner (oracle)",
  oracle_source: "the same source (oracle)",
  false_merge: "an error of the oracle",
  "both confirm": "both confirm it",
};

/** {identities, units, edges, reasons, edges_in_all, clusters, note} of an answer of /api/market/answer. */
export function graphOf(answer) {
  const { graph, market } = answer;
  const behind = new Map(answer.schemes[1].identities.map((row) => [row.identity, row]));
  const identities = graph.identities.map((name) => {
    const row = behind.get(name);
    return { name, provider: row.provider, attacker: row.attacker && market.attack !== "honest", pseudonym: row.pseudonym };
  });
  const { units: u, edges: e } = graph;
  const units = u.id.map((id, row) => ({
    id,
    identity: u.identity[row],
    owner: graph.providers[u.owner[row]],
    cluster: u.cluster[row],
    canonical: u.canonical[row],
    copyOf: u.copy_of[row],
    genuine: u.genuine[row],
  }));
  const edges = e.left.map((left, at) => ({ left, right: e.right[at], reason: e.reason[at], score: e.score[at] }));
  const reasons = graph.reasons.map(({ name, edges: count }) => ({ words: REASONS[name] ?? name.replaceAll("_", " "), count }));
  return { identities, units, edges, reasons, edges_in_all: graph.edges_in_all, clusters: graph.clusters, note: graph.note };
}

const MOST_MATCHES = 4;

const count = (number, noun, many = `${noun}s`) => `${number.toLocaleString("en")} ${number === 1 ? noun : many}`;

/** The graph in a sentence, for those who do not see it. */
function describe(graph) {
  const names = graph.identities.filter((identity) => identity.attacker).length;
  const reasons = graph.reasons.map((reason) => `${reason.count} by ${reason.words}`).join(", ");
  return (
    `${count(graph.identities.length, "identity", "identities")} with ` +
    `${count(graph.units.length, "unit")} in ${count(graph.clusters, "cluster")}; ` +
    `${count(graph.edges_in_all, "match")}${reasons && `, ${reasons}`}; ` +
    (names ? `${count(names, "name")} of the attacker's` : "nobody attacks")
  );
}

/** A name: who is behind it, how many units, and to whose units they are matched. */
function ofIdentity(graph, at) {
  const identity = graph.identities[at];
  const units = graph.units.filter((unit) => unit.identity === at).length;
  const matched = [...neighbours(graph, at)].map(([other, matches]) =>
    other === at ? `${count(matches, "match")} among themselves` : [`${count(matches, "match")} to units of `, name(graph.identities[other].name)]);
  return [name(identity.name), roleOf(identity), `: ${count(units, "unit")}; `, matched.length ? between(matched, ", ") : "none is matched to another", "."];
}

/** A unit: who submitted it, whose it is, its cluster, and what matches it to which others. */
function ofUnit(graph, row) {
  const unit = graph.units[row];
  const identity = graph.identities[unit.identity];
  const together = graph.units.filter((other) => other.cluster === unit.cluster);
  const names = new Set(together.map((other) => other.identity)).size;
  const matches = graph.edges.filter((edge) => edge.left === row || edge.right === row);
  const told = matches.slice(0, MOST_MATCHES).map((edge) => {
    const other = graph.units[edge.left === row ? edge.right : edge.left];
    const score = edge.score === null || edge.score === 1 ? "" : ` ${edge.score.toFixed(3)}`;
    return ["to ", name(other.id), " of ", name(graph.identities[other.identity].name), ` by ${graph.reasons[edge.reason].words}${score}`];
  });
  const more = matches.length > MOST_MATCHES ? ` and ${matches.length - MOST_MATCHES} more` : "";
  return [
    name(unit.id), ", submitted by ", name(identity.name), roleOf(identity),
    unit.copyOf === null ? "" : [", made of ", name(graph.units[unit.copyOf].id)],
    unit.owner === identity.provider ? "" : [", data of ", name(unit.owner)],
    unit.cluster === null
      ? ". Set aside: it is a validation row, or nearly"
      : `. Cluster ${unit.cluster + 1}: ${together.length === 1 ? "alone" : `${count(together.length, "unit")} of ${count(names, "name")}`}`,
    unit.canonical && together.length > 1 ? ", for which it stands" : "",
    matches.length ? [". Matched ", between(told, "; "), more] : "",
    ".",
  ];
}

function roleOf(identity) {
  if (!identity.attacker) return "";
  return identity.pseudonym ? [" (a pseudonym of ", name(identity.provider), ", the attacker)"] : " (the attacker)";
}

function neighbours(graph, at) {
  const found = new Map();
  for (const { left, right } of graph.edges) {
    const [a, b] = [graph.units[left].identity, graph.units[right].identity];
    if (a !== at && b !== at) continue;
    const other = a === at ? b : a;
    found.set(other, (found.get(other) ?? 0) + 1);
  }
  return found;
}

const between = (parts, mark) => parts.map((part, at) => (at ? [mark, part] : part));

const NEAR = 9; // pixels from a unit within which it is meant
const IDLE = "Point at a unit, or reach a name with the tab key and its units with the arrow keys.";

/** Makes a picture {graph, laid, picture, over, told, discs} answer the pointer and the keys. */
function answering(look) {
  look.discs.forEach((disc, at) => reachable(disc, look.laid.groups[at], look));
  const { laid, picture } = look;
  let last = null;
  const mean = (event) => {
    const box = picture.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * laid.width;
    const y = ((event.clientY - box.top) / box.height) * laid.height;
    const found = meant(laid, x, y);
    if (found === last) return;
    last = found;
    if (found === null) rest(look);
    else if (found < 0) showIdentity(look, -1 - found);
    else showUnit(look, found);
  };
  picture.addEventListener("pointermove", mean);
  picture.addEventListener("pointerdown", mean);
  picture.addEventListener("pointerleave", (event) => {
    if (event.pointerType === "touch") return; // a finger that was lifted has chosen
    last = null;
    if (!picture.contains(document.activeElement)) rest(look);
  });
}

/** The unit at a point (its row), else the identity there (-1 - its number), else null. */
function meant(laid, x, y) {
  const group = laid.groups.find((one) => Math.hypot(one.x - x, one.y - y) <= one.r + NEAR);
  if (!group) return null;
  let best = -1 - group.at;
  let least = NEAR;
  for (const row of group.units) {
    const far = Math.hypot(laid.x[row] - x, laid.y[row] - y);
    if (far < least) [best, least] = [row, far];
  }
  return best;
}

function reachable(disc, group, look) {
  let step = -1;
  disc.addEventListener("focus", () => {
    step = -1;
    showIdentity(look, group.at);
  });
  disc.addEventListener("blur", () => rest(look));
  disc.addEventListener("keydown", (event) => {
    const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!move || !group.units.length) return;
    event.preventDefault();
    const units = group.units.length;
    step = step < 0 && move < 0 ? units - 1 : (step + move + units) % units;
    showUnit(look, group.units[step]);
  });
}

const strong = (paths) => paths.map((d, reason) => svg("path", { class: `match strong ${reasonOf(reason)}`, d }));

/** A unit's whole cluster stands out. */
function showUnit({ graph, laid, over, told, picture }, row) {
  const { cluster } = graph.units[row];
  const within = cluster === null ? [] : graph.edges.filter((edge) => graph.units[edge.left].cluster === cluster);
  const matched = new Set(within.flatMap((edge) => [edge.left, edge.right]));
  fill(
    over,
    strong(lines(graph, laid, within)),
    svg("path", { class: "with", d: [...matched].map((other) => round(laid, other, 1.5)).join("") }),
    svg("path", { class: "meant", d: round(laid, row, 3) }),
  );
  picture.classList.add("looking");
  fill(told, ofUnit(graph, row));
}

/** All matches of an identity's units stand out. */
function showIdentity({ graph, laid, over, told, picture }, at) {
  const of = (row) => graph.units[row].identity;
  fill(over, strong(lines(graph, laid, graph.edges.filter((edge) => of(edge.left) === at || of(edge.right) === at))));
  picture.classList.add("looking");
  fill(told, ofIdentity(graph, at));
}

function rest({ over, told, picture }) {
  fill(over);
  picture.classList.remove("looking");
  fill(told, IDLE);
}

const MOST = 3000;

/** The figure of a graph (see graph_view.js) on a page of that width: a function of these two alone. */
export function evidenceGraph(graph, width) {
  const laid = place(graph, width);
  const many = graph.units.length > MOST;
  const told = el("p", { class: "graph-told", "aria-live": "polite" }, IDLE);
  const over = svg("g", { class: "over" });
  const discs = laid.groups.map((group) => disc(graph, group));
  const picture = svg(
    "svg",
    { class: "evidence", viewBox: `0 0 ${width} ${px(laid.height)}`, width, height: px(laid.height), role: "group", "aria-label": describe(graph) },
    svg("g", {}, discs),
    many ? null : svg("g", { class: "matches" }, lines(graph, laid, graph.edges).map((d, reason) => svg("path", { class: `match ${reasonOf(reason)}`, d }))),
    many ? null : svg("g", { class: "units" }, dots(graph, laid)),
    over,
    svg("g", { class: "labels", "aria-hidden": "true" }, laid.groups.map(label)),
  );
  answering({ graph, laid, picture, over, told, discs });
  return el(
    "figure",
    { class: "graph" },
    el("div", { class: "graph-picture", style: { width: `${width}px` } }, many ? paint(graph, laid) : null, picture),
    told,
    legend(graph),
  );
}

function disc(graph, { identity, at, x, y, r }) {
  const words = el("span", {}, ofIdentity(graph, at)).textContent;
  const circle = (look, radius) => svg("circle", { class: look, cx: px(x), cy: px(y), r: px(radius) });
  return svg(
    "g",
    { class: identity.attacker ? "disc attacker" : "disc", tabindex: 0, role: "img", "aria-label": words, "data-identity": identity.name },
    identity.attacker ? circle("ring", r + 4) : null,
    circle("ground", r),
  );
}

function label({ identity, x, y, r }) {
  const top = y + r + (identity.attacker ? 17 : 14);
  return svg(
    "g",
    { class: identity.attacker ? "label attacker" : "label" },
    svg("text", { x: px(x), y: px(top) }, shown(identity)),
    identity.attacker ? svg("text", { class: "mark", x: px(x), y: px(top + 13) }, identity.pseudonym ? "pseudonym" : "attacker") : null,
  );
}

/** The units in as few paths as there are looks. */
function dots(graph, laid) {
  const paths = Object.fromEntries(Object.keys(LOOKS).map((look) => [look, []]));
  graph.units.forEach((unit, row) => paths[lookOf(graph, unit)].push(round(laid, row)));
  return Object.entries(paths).map(([look, parts]) => svg("path", { class: look, d: parts.join("") }));
}

function legend(graph) {
  const sample = (content) => svg("svg", { class: "sample", viewBox: "0 0 28 12", width: 28, height: 12, "aria-hidden": "true" }, content);
  const there = new Set(graph.units.map((unit) => lookOf(graph, unit)));
  return el(
    "ul",
    { class: "graph-legend" },
    graph.reasons.map(({ words, count }, reason) =>
      el("li", {}, sample(svg("path", { class: `match strong ${reasonOf(reason)}`, d: "M1 6L27 6" })), ` matched by ${words} (${count.toLocaleString("en")})`)),
    graph.edges_in_all ? null : el("li", {}, "No two units are matched under this evidence."),
    Object.entries(LOOKS).map(([look, { words }]) =>
      there.has(look) ? el("li", {}, sample(svg("circle", { class: look, cx: 14, cy: 6, r: 4 })), ` ${words}`) : null),
    graph.note ? el("li", { class: "whole-line" }, `${graph.note}.`) : null,
  );
}
