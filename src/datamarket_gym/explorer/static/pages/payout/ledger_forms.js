// What is entered into a ledger by hand: forms, batches, rules, disputes; whatever moves money asks for the token.
import { copyButton, field, number, select, textbox, checkbox } from "../../lib/controls.js";
import { el, name } from "../../lib/dom.js";
import { doing, fresh, tokenField } from "./parts.js";

/** A button that enters something into the ledger, once; `body()` is what is entered. */
const entering = (page, { what = "act", body, inputs = [], token, ready = () => true, ...button }) =>
  doing({
    ...button, page, inputs, token, ready: () => ready() && inputs.every((input) => input.value.trim() !== ""),
    work: async (under, typed) => page.enter(what, { ledger: page.ledger, once: fresh(), token: typed, ...body() }, under),
  });

const currencyField = (page, name) => {
  const { currencies } = page.found;
  return select({ name, value: currencies[0] || "", options: currencies.length ? currencies : [""] });
};

/** Whoever acts on one payee's money. */
export const actionForm = (page, payee = "") => {
  const actions = page.found.by_hand;
  const names = el("datalist", { id: "payees-known" }, page.found.payees.map((each) => el("option", { value: each })));
  const whom = textbox({ name: "act-payee", value: payee });
  whom.setAttribute("list", "payees-known");
  const why = textbox({ name: "act-why" });
  const token = tokenField("act-token");
  const means = el("p", {});
  const inputs = { amount: textbox({ name: "act-amount", placeholder: "12.50" }), currency: currencyField(page, "act-currency"), of: number({ name: "act-of", min: 1, step: 1 }) };
  const labels = { amount: "Amount", currency: "Currency", of: "Number of the entry" };
  const fields = Object.fromEntries(Object.entries(inputs).map(([key, control]) => [key, field({ label: labels[key], control })]));
  const kind = select({ name: "act", value: "hold", options: actions.map((each) => ({ value: each.action, label: each.label })), onchange: () => shape() });
  const chosen = () => actions.find((each) => each.action === kind.value);
  const value = (key) => (key === "of" ? Number(inputs.of.value) || null : inputs[key].value.trim());
  const act = entering(page, {
    name: "act-enter", label: "Enter it", inputs: [whom, why], token,
    body: () => ({ action: { action: kind.value, by: page.who.name, payee: whom.value, why: why.value.trim(), ...Object.fromEntries(chosen().uses.filter((key) => key in inputs).map((key) => [key, value(key)])) } }),
  });
  const shape = () => {
    means.textContent = chosen().help;
    for (const [key, each] of Object.entries(fields)) each.hidden = !chosen().uses.includes(key);
    token.node.hidden = !chosen().token;
    act.check();
  };
  shape();
  return el("div", { class: "card by-hand" }, el("h3", {}, "Enter by hand"), field({ label: "What", control: kind }), means, names,
    field({ label: "Payee", control: whom, help: "The whole name, as runs call it." }), Object.values(fields),
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
    const action = (kind, more) => ({ action: { action: kind, by: page.who.name, batch: batch.batch, ...more } });
    const sent = entering(page, { name: `sent-${batch.batch}`, label: "The bank has sent it", inputs: [reference], token, body: () => action("sent", { reference: reference.value.trim() }) });
    const cancelled = entering(page, { name: `cancel-${batch.batch}`, label: "It will not be sent: cancel it", kind: "", inputs: [why], token, body: () => action("cancel", { why: why.value.trim() }) });
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
  const currency = currencyField(page, "rule-currency");
  const token = tokenField("rules-token");
  const act = entering(page, {
    name: "rules", label: "Set the rules", token,
    body: () => {
      const [wanted, sum] = [Number(approvals.value), least.value.trim()];
      return { action: { action: "rules", by: page.who.name, approvals: wanted !== page.found.approvals || !sum ? wanted : null, least: sum, currency: sum ? currency.value : "" } };
    },
  });
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

const EFFECTS = {
  separate_units: "Units to separate from all others", separate_payees: "Names not to be paid together with others",
  join_units: "Units to match", join_payees: "Names to pay as one payee",
};

const decide = (page, dispute) => {
  const n = dispute.number;
  const outcome = select({ name: `outcome-${n}`, value: "rejected", options: ["upheld", "rejected", "withdrawn"], onchange: () => (effects.hidden = outcome.value !== "upheld") });
  const why = textbox({ name: `decide-why-${n}` });
  const correction = textbox({ name: `correction-${n}`, placeholder: "12.50" });
  const from = textbox({ name: `from-${n}` });
  const boxes = Object.fromEntries(Object.keys(EFFECTS).map((key) => [key, el("textarea", { name: `${key}-${n}`, rows: 2 })]));
  const effects = el("div", { hidden: true },
    field({ label: "Owe the payee so much more", control: correction, help: "In the run's currency; for an approved run." }), field({ label: "Taken from", control: from, help: "The payee who is owed so much less; empty: the market pays." }),
    el("details", {}, el("summary", {}, "What later runs match and separate"), Object.entries(EFFECTS).map(([key, label]) => field({ label, control: boxes[key], help: "One a line." }))));
  const token = tokenField(`decide-token-${n}`);
  const act = entering(page, {
    what: "dispute/resolve", name: `decide-${n}`, label: "Decide it, once", inputs: [why], token,
    body: () => {
      const more = outcome.value === "upheld" ? { correction: correction.value.trim(), taken_from: from.value, ...Object.fromEntries(Object.entries(boxes).map(([key, box]) => [key, listed(box.value)])) } : {};
      return { by: page.who.name, number: n, outcome: outcome.value, why: why.value.trim(), effects: more };
    },
  });
  return el("details", {}, el("summary", {}, "Decide it"), field({ label: "Outcome", control: outcome }), field({ label: "Why", control: why }), effects, token.node, act);
};

const revoke = (page, dispute) => {
  const why = textbox({ name: `revoke-why-${dispute.number}` });
  const token = tokenField(`revoke-token-${dispute.number}`);
  const act = entering(page, {
    what: "dispute/revoke", name: `revoke-${dispute.number}`, label: "End what it changes in later runs", kind: "", inputs: [why], token,
    body: () => ({ by: page.who.name, number: dispute.number, why: why.value.trim() }),
  });
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
    name: "dispute-open", label: "Enter the dispute", page, inputs: [payee, about], ready: () => payee.value.trim() !== "" && about.value.trim() !== "",
    work: (under) => page.enter("dispute/open", { run: run.value, once: fresh(), by: page.who.name, dispute: { payee: payee.value, about: about.value.trim(), against: against.value, units: listed(units.value), ...held } }, under),
  });
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
