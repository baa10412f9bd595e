// The answer: a sentence, payments honest against attacked, and the certificate.
import { el, fill, many, name, percent, shown } from "../../lib/dom.js";
import { table } from "../../lib/table.js";
import { byNumber } from "./graph.js";

const DIGITS = 4;
const SMALL = 0.5 * 10 ** -DIGITS; // what is less than this is shown as zero

const amount = (value) => shown(value, DIGITS).replace("-", "−");
const change = (value) => (Math.abs(value) < SMALL ? "±0" : `${value > 0 ? "+" : "−"}${shown(Math.abs(value), DIGITS)}`);

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

function harm({ gain, clusters, exact }, attacks) {
  const players = `${many(clusters)} ${clusters === 1 ? "player" : "players"}, scores ${exact ? "exact" : "estimated"}. `;
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

/** The sentence, what the attack is, and what the library warns of. */
export function sentence(answer) {
  const { market, schemes: [shapley, chosen] } = answer;
  return [
    el("p", { class: "headline" }, market.attack === "honest" ? nobody(market, shapley, chosen) : attack(market, shapley, chosen)),
    market.assumes ? el("p", { class: "soft" }, `The attack assumes ${market.assumes}.`) : null,
    resolved(chosen),
    answer.schemes.flatMap((scheme) => scheme.warnings.map((warning) => note(scheme, warning))),
  ];
}

function nobody(market, ...schemes) {
  const paid = schemes.map((scheme, at) => [at ? " and " : "", amount(mine(scheme).honest), ` under ${called(scheme)}`]);
  return ["Nobody attacks. ", name(market.attacker), " is paid ", paid, "."];
}

function attack(market, shapley, chosen) {
  return [
    "The attack pays ", name(market.attacker), " ", times(shapley), ` what honesty pays under ${called(shapley)} (`, paid(shapley), "), and ",
    times(chosen), ` under ${called(chosen)} (`, paid(chosen), ")",
    chosen.checked ? ["; with ", checks(chosen.checked), ", expected ", expected(chosen.checked)] : "",
    ".",
  ];
}

const called = (scheme) => (scheme.key === "shapley" ? "identity-level Shapley" : scheme.title);
const mine = (scheme) => scheme.providers.find((row) => row.attacker);

const paid = (scheme) => `${amount(mine(scheme).honest)} → ${amount(mine(scheme).attacked)}${scheme.gain.gain === null ? `; ${scheme.gain.why}` : ""}`;

function times({ key, gain }) {
  return el("strong", { "data-gain": key }, gain.gain === null ? "no telling how many times" : `${shown(gain.gain, 2)} times`);
}

const checks = ({ per_payee, power }) => `${per_payee} ${per_payee === 1 ? "check" : "checks"} a payee that find ${Math.round(100 * power)} % of what is false`;

function expected({ gain, pay, why }) {
  if (gain === null) return pay === null ? why : `${amount(pay)} (${why})`;
  return [el("strong", { "data-gain": "checked" }, `${shown(gain, 2)} times`), pay === null ? "" : ` (${amount(pay)})`];
}

/** The gains in a few words, for a line that stays in sight. */
export function brief({ market, schemes }) {
  if (market.attack === "honest") return "Nobody attacks.";
  const told = schemes.map((scheme) => `${scheme.key === "shapley" ? called(scheme) : scheme.preset} × ${shown(scheme.gain.gain, 2)}`);
  const { checked } = schemes[1];
  return `${told.join(" · ")}${checked ? ` · checked × ${shown(checked.gain, 2)}` : ""}`;
}

function resolved({ threshold }) {
  if (!threshold) return null;
  const { honest, attacked } = threshold;
  const both = honest.evidence === attacked.evidence;
  return el("p", { class: "soft" }, both ? `The evidence resolved to ${attacked.evidence}: ${attacked.why}` : `The evidence resolved to ${honest.evidence} in the honest and ${attacked.evidence} in the attacked market: ${attacked.why}`);
}

const MARKETS = { honest: "in the honest market", attacked: "in the attacked market", both: "in both markets" };

function note(scheme, { what, words, market }) {
  return el("p", { class: "note" }, el("strong", {}, `${what}, ${MARKETS[market]} (${called(scheme)}): `), words);
}

const CLAIMS = {
  exact: "Proven: no gain at all",
  certain: "Proven, with exact scores",
  probable: "Proven, but for the chance of sampling",
  expected: "Proven of the expected gain",
  none: "Nothing is proven",
};

/** The certificate of an answer. */
export function certificate({ certificate: c, market }) {
  if (market.attack === "honest") return el("p", {}, "Nobody attacks, so there is no gain to bound. Choose an attack to see what is proven about it.");
  if (c.gain === null) return el("p", { class: "note" }, `This attack cannot be certified: ${c.why}`);
  return [
    el("p", {}, el("strong", {}, CLAIMS[c.claim]), c.claim === "exact" ? "." : `: ${c.certified ? c.summary : c.why}.`),
    c.terms ? bars(c) : null,
    el("p", {}, c.words),
    c.deterrence ? el("details", {}, el("summary", {}, "What checks leave to it"), el("p", {}, c.deterrence)) : null,
    el("h3", {}, "Conditions"),
    el("ul", { class: "conditions" }, c.conditions.map((condition) => el(
      "li",
      { class: condition.holds ? "held" : "failed" },
      el("strong", {}, `${condition.holds ? "✓ held" : "✗ did not hold"}: ${condition.words}`), ` — ${condition.why}`,
    ))),
  ];
}

function bars(c) {
  const sum = c.terms.reduce((all, term) => all + Math.max(term.value, 0), 0);
  const gain = Math.abs(c.gain);
  const whole = Math.max(sum, gain, c.bound ?? 0) || 1;
  const part = (value) => `${(100 * Math.max(value, 0)) / whole}%`;
  const rescaled = c.normalized !== null && c.bound !== null;
  return el(
    "figure",
    { class: "bound", role: "group", "aria-label": `The bound is ${amount(c.bound ?? sum)}, the measured gain ${amount(c.gain)}` },
    el("div", { class: "bound-row" }, el("span", { class: "bound-name" }, rescaled ? "bound of raw scores" : "bound"),
      el("span", { class: "bound-bar" }, c.terms.map((term, at) => term.value > 0
        ? el("span", { class: `term term-${at}`, style: { width: part(term.value) }, title: `${term.symbol}: ${amount(term.value)}` }, term.value / whole > 0.07 ? term.symbol : "")
        : null), sum > 0 ? null : el("span", { class: "soft" }, "every term is zero")),
      el("span", { class: "bound-value", "data-bound": "sum" }, amount(sum))),
    rescaled ? single("bound as paid", "as-paid", c.bound, part(c.bound)) : null,
    single(c.gain < 0 ? "measured loss" : "measured gain", "gain", c.gain, part(gain)),
    el("ul", { class: "terms" }, c.terms.map((term, at) => el("li", {},
      el("span", { class: `swatch term-${at}` }), " ", el("strong", {}, term.symbol), ` ${term.words}: `, el("span", { "data-term": term.key }, amount(term.value))))),
    rescaled ? el("p", { class: "soft" }, `Payments are rescaled to what all data are worth; that changes the bound from ${shown(sum, 4)} to ${shown(c.bound, 4)}.`) : null,
  );
}

function single(title, look, value, width) {
  return el("div", { class: "bound-row" }, el("span", { class: "bound-name" }, title),
    el("span", { class: "bound-bar" }, el("span", { class: `term ${look}`, style: { width } })),
    el("span", { class: "bound-value", "data-bound": look }, amount(value)));
}
