// The evidence graph: names as discs of their units, matches as lines coloured (and dashed) by their reason.
//
// Up to MOST units all of it is SVG; beyond that units and matches are painted on a canvas under the same discs.

import { el, svg } from "../../lib/dom.js";
import { paint } from "./canvas.js";
import { describe, ofIdentity } from "./graph_words.js";
import { place, px, shown } from "./layout.js";
import { LOOKS, lines, lookOf, reasonOf, round } from "./marks.js";
import { IDLE, answering } from "./pointing.js";

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
