// The certificate: the terms of the bound as a stacked bar against the measured gain, in words, and its conditions.

import { el, shown } from "../../lib/dom.js";
import { amount } from "./payments.js";

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
    c.deterrence ? el("details", {}, el("summary", {}, "What checks leave to it"), el("p", {}, c.deterrence.words)) : null,
    el("h3", {}, "Conditions"),
    el("ul", { class: "conditions" }, c.conditions.map((condition) => el(
      "li",
      { class: condition.held ? "held" : "failed" },
      el("strong", {}, `${condition.held ? "✓ held" : "✗ did not hold"}: ${condition.words}`), ` — ${condition.why}`,
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
