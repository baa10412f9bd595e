// What a match and a unit look like: the same on SVG, on a canvas and in the legend.

import { px } from "./layout.js";

/** The looks of units: their class, what they mean, and the colour that a canvas paints them in. */
export const LOOKS = {
  "unit": { words: "a unit", colour: "--main" },
  "unit attacker": { words: "a unit of the attacker's own", colour: "--alt" },
  "unit false": { words: "not genuine: copied, changed or made up", colour: "--alt", hollow: true },
  "unit aside": { words: "set aside: a validation row", colour: "--soft", hollow: true },
};

export function lookOf(graph, unit) {
  if (unit.cluster === null) return "unit aside";
  if (!unit.genuine) return "unit false";
  return graph.identities[unit.identity].attacker ? "unit attacker" : "unit";
}

export const reasonOf = (reason) => `reason-${reason % 8}`;

/** A match's path: straight within an identity, bent towards the middle of the picture between two. */
export function line(graph, laid, { left, right }) {
  const [ax, ay, bx, by] = [laid.x[left], laid.y[left], laid.x[right], laid.y[right]].map(px);
  if (graph.units[left].identity === graph.units[right].identity) return `M${ax} ${ay}L${bx} ${by}`;
  const mx = px(((ax + bx) / 2) * 0.75 + (laid.width / 2) * 0.25);
  const my = px(((ay + by) / 2) * 0.75 + (laid.height / 2) * 0.25);
  return `M${ax} ${ay}Q${mx} ${my} ${bx} ${by}`;
}

/** The paths of some matches, by reason. */
export function lines(graph, laid, edges) {
  const paths = graph.reasons.map(() => []);
  for (const edge of edges) paths[edge.reason].push(line(graph, laid, edge));
  return paths.map((parts) => parts.join(""));
}

/** A unit's path, a circle. */
export function round(laid, row, more = 0) {
  const r = px(laid.spot + more);
  return `M${px(laid.x[row] - r)} ${px(laid.y[row])}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;
}
