// The evidence graph in words: the whole of it, one identity, one unit. Names go through name(), so they stay text.

import { name } from "../../lib/dom.js";

const MOST_MATCHES = 4;

export const count = (number, noun, many = `${noun}s`) => `${number.toLocaleString("en")} ${number === 1 ? noun : many}`;

/** The graph in a sentence, for those who do not see it. */
export function describe(graph) {
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
export function ofIdentity(graph, at) {
  const identity = graph.identities[at];
  const units = graph.units.filter((unit) => unit.identity === at).length;
  const matched = [...neighbours(graph, at)].map(([other, matches]) =>
    other === at ? `${count(matches, "match")} among themselves` : [`${count(matches, "match")} to units of `, name(graph.identities[other].name)]);
  return [name(identity.name), standing(identity), `: ${count(units, "unit")}; `, matched.length ? between(matched, ", ") : "none is matched to another", "."];
}

/** A unit: who submitted it, whose it is, its cluster, and what matches it to which others. */
export function ofUnit(graph, row) {
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
    name(unit.id), ", submitted by ", name(identity.name), standing(identity),
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

function standing(identity) {
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
