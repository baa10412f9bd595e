// What everybody is paid, honest against attacked: two panels on one scale, and the numbers as tables.

import { el, fill, name, percent, shown } from "../../lib/dom.js";
import { table } from "../../lib/table.js";
import { byNumber } from "./layout.js";

const DIGITS = 4;
const SMALL = 0.5 * 10 ** -DIGITS; // what is less than this is shown as zero

export const amount = (value) => shown(value, DIGITS).replace("-", "−");
export const change = (value) => (Math.abs(value) < SMALL ? "±0" : `${value > 0 ? "+" : "−"}${shown(Math.abs(value), DIGITS)}`);

/** The two panels of an answer. */
export function panels(answer) {
  const attacks = answer.market.attack !== "honest";
  const all = answer.schemes.flatMap((scheme) => scheme.providers.flatMap((row) => [row.honest, row.attacked]));
  const scale = { low: Math.min(0, ...all), high: Math.max(0, ...all) };
  return el(
    "div",
    { class: "pay-panels" },
    answer.schemes.map((scheme) => el(
      "section",
      { class: "pay-panel", "data-scheme": scheme.key },
      el("h3", {}, scheme.key === "shapley" ? "Identity-level Shapley" : scheme.title),
      el("ul", { class: "pays" }, scheme.providers.toSorted((a, b) => byNumber(a.provider, b.provider)).map((row) => line(row, scale, attacks))),
      el("p", { class: "soft" }, harm(scheme, attacks)),
    )),
  );
}

/** Which bar is which. */
export const barLegend = () => [
  el("p", { class: "soft" }, "In units of the utility: what all data are worth together is divided among the providers."),
  el("p", { class: "soft bar-legend" }, el("span", { class: "swatch honest" }), " when all are honest ", el("span", { class: "swatch attacked" }), " when one attacks; in brackets, how much of its share of the pot a provider loses"),
];

function line(row, scale, attacks) {
  const attacker = attacks && row.attacker;
  const gone = row.attacked - row.honest;
  return el(
    "li",
    { class: attacker ? "pay attacker" : "pay", "data-provider": row.provider },
    el("span", { class: "who" }, name(row.provider), attacker ? el("span", { class: "tag" }, "attacker") : null),
    el("span", { class: "amounts" }, amount(row.honest), " → ", el("strong", {}, amount(row.attacked)), " ",
      el("span", { class: gone < -SMALL ? "change lost" : "change" }, change(gone)),
      row.lost > 0.0005 && !attacker ? el("span", { class: "change lost" }, ` (−${percent(row.lost)})`) : null),
    el("span", { class: "track", "aria-hidden": "true" }, bar("honest", row.honest, scale), bar("attacked", row.attacked, scale)),
  );
}

function bar(look, value, { low, high }) {
  const at = (x) => (100 * (x - low)) / (high - low || 1);
  const [from, to] = [at(Math.min(value, 0)), at(Math.max(value, 0))];
  return el("span", { class: `bar ${look}`, style: { left: `${from}%`, width: `${to - from}%` } });
}

function harm({ gain, attacked }, attacks) {
  const players = `${attacked.clusters.toLocaleString("en")} ${attacked.clusters === 1 ? "player" : "players"}, scores ${attacked.exact ? "exact" : "estimated"}. `;
  if (!attacks) return players;
  if (gain.victim === null || !(gain.victim_loss > 0.0005)) return [players, "No provider who is clearly paid loses any of its share of the pot."];
  return [players, "Of its share of the pot ", name(gain.victim), ` loses most, ${percent(gain.victim_loss)}; all others together lose ${percent(gain.victim_loss_sum)} of theirs.`];
}

/** Folded tables of the numbers: made when opened, and made again for a new answer while open. */
export function numbers() {
  const inside = el("div");
  const node = el("details", { class: "numbers" }, el("summary", {}, "The numbers as tables"), inside);
  let answer = null;
  const refill = () => answer && node.open && fill(inside, byProvider(answer), bySubmittedName(answer));
  node.addEventListener("toggle", refill);
  return { node, show: (next) => ((answer = next), refill()) };
}

function byProvider({ schemes: [shapley, chosen] }) {
  const ours = new Map(chosen.providers.map((row) => [row.provider, row]));
  const rows = shapley.providers.map((plain) => {
    const row = ours.get(plain.provider);
    return {
      provider: plain.provider, shapley_honest: plain.honest, shapley_attacked: plain.attacked, honest: row.honest, attacked: row.attacked,
      change: row.attacked - row.honest, lost: row.lost, error: row.attacked_error,
    };
  });
  const number = (key, title) => ({ key, title, number: true, show: (row) => amount(row[key]) });
  const columns = [
    { key: "provider", title: "provider", show: (row) => name(row.provider) },
    number("shapley_honest", "identity-level, honest"), number("shapley_attacked", "identity-level, attacked"),
    number("honest", "chosen, honest"), number("attacked", "chosen, attacked"),
    { ...number("change", "change"), show: (row) => change(row.change) },
    { key: "lost", title: "share lost", number: true, show: (row) => percent(row.lost) },
    number("error", "standard error"),
  ];
  return table({ columns, rows, name: "payments", caption: "What each provider collects over all its names", search: rows.length > 12 });
}

function bySubmittedName({ schemes: [shapley, chosen] }) {
  const byName = new Map(shapley.identities.map((row) => [row.identity, row.attacked]));
  const rows = chosen.identities.map((row) => ({ ...row, shapley: byName.get(row.identity) ?? null }));
  const number = (key, title, digits) => ({ key, title, number: true, show: (row) => shown(row[key], digits) });
  const columns = [
    { key: "identity", title: "name", show: (row) => name(row.identity) },
    { key: "provider", title: "who is behind it", show: (row) => name(row.provider) },
    number("units", "units", 0), number("shapley", "identity-level Shapley", DIGITS), number("attacked", "chosen mechanism", DIGITS),
  ];
  return table({ columns, rows, name: "names", caption: "What each submitted name is paid in the attacked market", search: rows.length > 12 });
}
