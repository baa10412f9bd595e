// What is entered into a ledger by hand: forms, batches, rules, disputes; whatever moves money asks for the token.
import { copyButton, dialog, field, number, select, textbox, checkbox } from "../../lib/controls.js";
import { el, name } from "../../lib/dom.js";
import { doing, fresh, good, tokenField } from "./parts.js";

const ACTIONS = {
  hold: ["Hold", "Send the payee nothing until it is released; what it is owed stays owed."],
  release: ["Release", "End a hold."],
  correct: ["Correct", "A late correction: a new entry that names the old one, which stays. Below zero: less is owed.", "amount", "of"],
  fee: ["Fee", "Take a fee from what the payee is owed.", "amount", "currency"],
  bounced: ["Came back", "What was sent has come back: it is owed again. The last that was sent, unless an entry is named.", "of"],
  fund: ["Pay a carried-forward credit", "Pay a credit that runs carry, or part of it, yourself: its debtor will not.", "amount", "currency"],
  "write-off": ["Write off", "End a balance that runs carry, or part of it: a debt (below zero) or a credit.", "amount", "currency"],
};
const FREE = ["hold"];

/** Whoever acts on one payee's money. */
export const actionForm = (page, payee = "") => {
  const names = el("datalist", { id: "payees-known" }, page.found.payees.map((each) => el("option", { value: each })));
  const whom = textbox({ name: "act-payee", value: payee });
  whom.setAttribute("list", "payees-known");
  const amount = textbox({ name: "act-amount", placeholder: "12.50" });
  const of = number({ name: "act-of", min: 1, step: 1 });
  const currency = select({ name: "act-currency", value: page.found.currencies[0] || "", options: page.found.currencies.length ? page.found.currencies : [""] });
  const why = textbox({ name: "act-why" });
  const token = tokenField("act-token");
  const means = el("p", {});
  const fields = { amount: field({ label: "Amount", control: amount }), of: field({ label: "Number of the entry", control: of }), currency: field({ label: "Currency", control: currency }) };
  const kind = select({ name: "act", value: "hold", options: Object.entries(ACTIONS).map(([value, [label]]) => ({ value, label })), onchange: () => shape() });
  const ready = () => whom.value.trim() !== "" && why.value.trim() !== "" && (FREE.includes(kind.value) || token.value !== "");
  const act = doing({
    name: "act-enter", label: "Enter it", ready,
    work: async (under) => {
      if (!page.named()) return null;
      const uses = ACTIONS[kind.value].slice(2);
      const asked = { action: kind.value, by: page.who.name, payee: whom.value, why: why.value.trim() };
      if (uses.includes("amount")) asked.amount = amount.value.trim();
      if (uses.includes("of") && of.value) asked.of = Number(of.value);
      if (uses.includes("currency")) asked.currency = currency.value;
      const typed = token.taken();
      const done = await page.post("act", { ledger: page.ledger, once: fresh(), token: typed, action: asked }, { progress: under });
      const told = good(done.words);
      await page.refresh();
      dialog("Entered", told);
      return null;
    },
  });
  const shape = () => {
    const [, words, ...uses] = ACTIONS[kind.value];
    means.textContent = words;
    for (const [key, each] of Object.entries(fields)) each.hidden = !uses.includes(key);
    token.node.hidden = FREE.includes(kind.value);
    act.check();
  };
  for (const input of [whom, why, token.input]) input.addEventListener("input", () => act.check());
  shape();
  return el("div", { class: "card by-hand" }, el("h3", {}, "Enter by hand"), field({ label: "What", control: kind }), means, names,
    field({ label: "Payee", control: whom, help: "The whole name, as runs call it." }), fields.amount, fields.currency, fields.of,
    field({ label: "Why", control: why, help: "For whoever asks later." }), token.node, act);
};

/** The batches, and what became of those that are open. */
export const batchForms = (page) => {
  const { batches } = page.found;
  if (!batches.length) return el("p", {}, "Nothing was ordered yet.");
  const open = batches.filter((each) => each.state === "ordered");
  const form = (batch) => {
    const reference = textbox({ name: `sent-reference-${batch.batch}` });
    const why = textbox({ name: `cancel-why-${batch.batch}` });
    const token = tokenField(`batch-token-${batch.batch}`);
    const send = (action, more) => async (under) => {
      if (!page.named()) return null;
      const typed = token.taken();
      const done = await page.post("act", { ledger: page.ledger, once: fresh(), token: typed, action: { action, by: page.who.name, batch: batch.batch, ...more() } }, { progress: under });
      await page.refresh();
      dialog("Entered", good(done.words));
      return null;
    };
    const sent = doing({ name: `sent-${batch.batch}`, label: "The bank has sent it", ready: () => token.value !== "" && reference.value.trim() !== "", work: send("sent", () => ({ reference: reference.value.trim() })) });
    const cancelled = doing({ name: `cancel-${batch.batch}`, label: "It will not be sent: cancel it", kind: "", ready: () => token.value !== "" && why.value.trim() !== "", work: send("cancel", () => ({ why: why.value.trim() })) });
    for (const input of [reference, why, token.input]) input.addEventListener("input", () => [sent, cancelled].forEach((each) => each.check()));
    return el("div", { class: "card" }, el("h3", {}, `Batch ${batch.batch}: ${batch.amount} to ${batch.payees} payees, ordered on ${batch.at}`),
      token.node, field({ label: "Reference of the payment", control: reference }), sent, field({ label: "Why it will not be sent", control: why }), cancelled);
  };
  return el("div", {}, open.map(form),
    el("details", { open: !open.length }, el("summary", {}, "All batches"), el("ul", {}, batches.map((each) => el("li", {}, `${each.at}: ${each.amount} to ${each.payees} payees, ${each.state}${each.reference ? ", " : ""}`, each.reference ? name(each.reference) : null, " ", el("code", {}, each.batch))))));
};

/** How many people approve a run, and the least that is sent. */
export const rulesForm = (page) => {
  const approvals = number({ name: "approvals", min: 1, max: 10, step: 1, value: page.found.approvals });
  const least = textbox({ name: "rule-least", placeholder: "5.00" });
  const currency = select({ name: "rule-currency", value: page.found.currencies[0] || "", options: page.found.currencies.length ? page.found.currencies : [""] });
  const token = tokenField("rules-token");
  const act = doing({
    name: "rules", label: "Set the rules", ready: () => token.value !== "",
    work: async (under) => {
      if (!page.named()) return null;
      const typed = token.taken();
      const wanted = Number(approvals.value);
      const asked = { action: "rules", by: page.who.name, approvals: wanted !== page.found.approvals || !least.value.trim() ? wanted : null, least: least.value.trim(), currency: least.value.trim() ? currency.value : "" };
      const done = await page.post("act", { ledger: page.ledger, once: fresh(), token: typed, action: asked }, { progress: under });
      await page.refresh();
      dialog("Rules", good(done.words));
      return null;
    },
  });
  token.input.addEventListener("input", () => act.check());
  return el("div", { class: "card" }, el("h3", {}, "Rules"), page.found.rules.map((words) => el("p", {}, words)),
    field({ label: "People who approve a run", control: approvals, help: "To ask for fewer than before, as many as before must say so, each under their own name." }),
    field({ label: "Least amount that is sent", control: least, help: "Less waits, and adds up. Empty: as it is." }), field({ label: "Currency", control: currency }), token.node, act);
};

/** Whether the ledger is whole; and its tip hash, to be given to others. */
export const verifyForm = (page) => {
  const checkpoints = el("textarea", { name: "checkpoints", rows: 3, class: "code", placeholder: "lines that you wrote down of this ledger: number, hash, time" });
  const act = doing({
    name: "verify", label: "Verify the ledger",
    work: async (under) => {
      const done = await page.post("verify", { ledger: page.ledger, checkpoints: checkpoints.value }, { progress: under });
      return el("div", {}, el("p", { class: `note ${done.good ? "good" : "bad"}` }, done.good ? "All is as it was entered." : "Something does not agree."),
        el("ul", { class: "verdicts" }, done.checks.map((each) => el("li", {}, el("span", { class: `tag ${each.good ? "good" : "bad"}` }, each.good ? "good" : "wrong"), " ", el("strong", {}, name(each.what)), ": ", name(each.detail)))));
    },
  });
  return el("div", { class: "card" }, el("h3", {}, "Proof"),
    el("p", {}, "The tip hash of the chain: what others hold of it, whoever keeps the ledger cannot change. Send this line to somebody, now and then."),
    el("pre", {}, page.found.checkpoint), copyButton("Copy the line", () => page.found.checkpoint, "copy-checkpoint"),
    field({ label: "Checkpoints that the ledger must hold", control: checkpoints, help: "May stay empty." }), act);
};

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
      return entered(page, await page.post("dispute/resolve", { ledger: page.ledger, once: fresh(), token: typed, by: page.who.name, number: n, outcome: outcome.value, why: why.value.trim(), effects: more }, { progress: under }));
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
