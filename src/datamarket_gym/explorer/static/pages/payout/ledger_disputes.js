// Disputes: a payee says that a run is wrong; opened, decided once, and what follows from it.
import { checkbox, dialog, field, select, textbox } from "../../lib/controls.js";
import { el, name } from "../../lib/dom.js";
import { doing, fresh, good, tokenField } from "./checks_parts.js";

const listed = (text) => text.split("\n").map((each) => each.trim()).filter(Boolean);

const entered = async (page, done) => {
  await page.refresh();
  dialog("Entered", good(done.words));
  return null;
};

const decide = (page, dispute) => {
  const n = dispute.number;
  const outcome = select({ name: `outcome-${n}`, value: "rejected", options: ["upheld", "rejected", "withdrawn"], onchange: () => (effects.hidden = outcome.value !== "upheld") });
  const why = textbox({ name: `decide-why-${n}` });
  const correction = textbox({ name: `correction-${n}`, placeholder: "12.50" });
  const from = textbox({ name: `from-${n}` });
  const names = Object.fromEntries([["separate_units", "Units to separate from all others"], ["separate_payees", "Names not to be paid together with others"], ["join_units", "Units to match"], ["join_payees", "Names to pay as one payee"]].map(
    ([key, label]) => [key, [label, el("textarea", { name: `${key}-${n}`, rows: 2 })]]));
  const effects = el("div", { hidden: true },
    field({ label: "Owe the payee so much more", control: correction, help: "In the run's currency; for an approved run." }), field({ label: "Taken from", control: from, help: "The payee who is owed so much less; empty: the market pays." }),
    el("details", {}, el("summary", {}, "What later runs match and separate"), Object.values(names).map(([label, box]) => field({ label, control: box, help: "One a line." }))));
  const token = tokenField(`decide-token-${n}`);
  const act = doing({
    name: `decide-${n}`, label: "Decide it, once", ready: () => token.value !== "" && why.value.trim() !== "",
    work: async (under) => {
      if (!page.named()) return null;
      const typed = token.taken();
      const upheld = outcome.value === "upheld";
      const more = upheld ? { correction: correction.value.trim(), taken_from: from.value, ...Object.fromEntries(Object.entries(names).map(([key, [, box]]) => [key, listed(box.value)])) } : {};
      return entered(page, await page.post("dispute/resolve", { ledger: page.ledger, once: fresh(), token: typed, by: page.who.name, decision: { number: n, outcome: outcome.value, why: why.value.trim(), ...more } }, { progress: under }));
    },
  });
  for (const input of [why, token.input]) input.addEventListener("input", () => act.check());
  return el("details", {}, el("summary", {}, "Decide it"), field({ label: "Outcome", control: outcome }), field({ label: "Why", control: why }), effects, token.node, act);
};

const revoke = (page, dispute) => {
  const why = textbox({ name: `revoke-why-${dispute.number}` });
  const token = tokenField(`revoke-token-${dispute.number}`);
  const act = doing({
    name: `revoke-${dispute.number}`, label: "End what it changes in later runs", kind: "", ready: () => token.value !== "" && why.value.trim() !== "",
    work: async (under) => {
      if (!page.named()) return null;
      const typed = token.taken();
      return entered(page, await page.post("dispute/revoke", { ledger: page.ledger, once: fresh(), token: typed, by: page.who.name, number: dispute.number, why: why.value.trim() }, { progress: under }));
    },
  });
  for (const input of [why, token.input]) input.addEventListener("input", () => act.check());
  return el("details", {}, el("summary", {}, "End what it changes"), el("p", {}, "Corrections stay: money has moved."), field({ label: "Why", control: why }), token.node, act);
};

const opening = (page) => {
  const runs = page.found.runs.filter((run) => run.id && run.state !== "superseded");
  if (!runs.length) return el("p", { class: "soft" }, "A dispute is about a run whose folder is shown here; name it on the command line.");
  const run = select({ name: "dispute-run", value: runs.at(-1).id, options: runs.map((each) => ({ value: each.id, label: `${each.period || each.name} (${each.state})` })) });
  const payee = textbox({ name: "dispute-payee" });
  const about = textbox({ name: "dispute-about", placeholder: "what is wrong, in the payee's words" });
  const against = textbox({ name: "dispute-against" });
  const units = el("textarea", { name: "dispute-units", rows: 2 });
  const held = { hold: false, hold_against: false };
  const act = doing({
    name: "dispute-open", label: "Enter the dispute", ready: () => payee.value.trim() !== "" && about.value.trim() !== "",
    work: async (under) => {
      if (!page.named()) return null;
      return entered(page, await page.post("dispute/open", { run: run.value, once: fresh(), by: page.who.name, dispute: { payee: payee.value, about: about.value.trim(), against: against.value, units: listed(units.value), ...held } }, { progress: under }));
    },
  });
  for (const input of [payee, about]) input.addEventListener("input", () => act.check());
  return el("details", { class: "open-one" }, el("summary", {}, "Open a dispute"), field({ label: "Run", control: run }), field({ label: "Payee who disputes it", control: payee }), field({ label: "About", control: about }),
    field({ label: "Against", control: against, help: "Another payee whom it is about; may stay empty." }), field({ label: "Units that it is about", control: units, help: "One a line; may stay empty." }),
    checkbox({ name: "dispute-hold", label: "Send the payee nothing until it is decided", onchange: (yes) => (held.hold = yes) }),
    checkbox({ name: "dispute-hold-against", label: "Send the other payee nothing until it is decided", onchange: (yes) => (held.hold_against = yes) }), act);
};

/** All disputes of a ledger, the open ones first. */
export const disputesPanel = (page) => {
  const all = [...page.found.disputes].sort((a, b) => Number(b.open) - Number(a.open) || b.number - a.number);
  return el("div", {}, opening(page),
    all.length ? null : el("p", {}, "There are no disputes."),
    all.map((each) => el("article", { class: "card", dataset: { dispute: each.number } },
      el("h3", {}, `Dispute ${each.number}: `, el("span", { class: `tag ${each.open ? "bad" : ""}` }, each.state)),
      el("p", {}, name(each.payee), each.against ? [" against ", name(each.against)] : null, `, run ${each.run.slice(0, 16)}, ${each.at}`),
      el("p", {}, name(each.about)), each.units.length ? el("p", { class: "soft" }, "Units: ", each.units.map((unit, i) => [i ? ", " : "", name(unit)])) : null,
      each.decided ? el("p", {}, name(each.decided)) : null, each.follows.length ? el("ul", {}, each.follows.map((words) => el("li", {}, words))) : null,
      each.open ? decide(page, each) : each.changes ? revoke(page, each) : null)));
};
