// Where the evidence graph's identities and units lie: a function of the graph and the width, nothing else.
//
// Identities stand on an ellipse (in rows, where they are many), the attacker's names side by side at its top; each identity's units fill a disc
// (a sunflower), those with matches on the side of what they are matched to. No physics, no chance: the same graph is the
// same picture, and moving a slider moves only what changed.

import { seen } from "../../lib/dom.js";

const GOLDEN = Math.PI * (3 - Math.sqrt(5));
const LABEL = 34; // height of the two lines of words under a disc
const LETTER = 6.6; // width of a letter of them, about
const GAP = 10;
const MARGIN = 8; // room for the ring around an attacker's disc
const MOST_AROUND = 16; // identities on an ellipse
const NEAREST_SPOTS = 600; // units of one identity up to which matched ones choose their side

/** {width, height, groups: [{x, y, r, units}], x, y: per unit, spot: radius of a unit}. */
export function place(graph, width) {
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
export const px = (value) => Math.round(value * 10) / 10;

/** A name as the picture writes it: long ones are cut, the words below the picture say them in full. */
export function shown(identity) {
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
  const crowd = Math.min(1, 12 / groups.length);
  return Math.min(6, ((width * 0.085 + 8) * crowd) / Math.sqrt(most));
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
