// What is pointed at, or reached with the keyboard, in the evidence graph: it stands out, and is told in words.

import { fill, svg } from "../../lib/dom.js";
import { ofIdentity, ofUnit } from "./graph_words.js";
import { lines, reasonOf, round } from "./marks.js";

const NEAR = 9; // pixels from a unit within which it is meant
export const IDLE = "Point at a unit, or reach a name with the tab key and its units with the arrow keys.";

/** Makes a picture {graph, laid, picture, over, told, discs} answer the pointer and the keys. */
export function answering(look) {
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
