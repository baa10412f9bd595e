// The answer in a sentence: what the attack gains under identity-level Shapley, and under the chosen mechanism.

import { el, name, shown } from "../../lib/dom.js";
import { amount } from "./payments.js";

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
