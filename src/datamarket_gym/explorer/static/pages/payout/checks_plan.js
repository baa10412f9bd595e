// Sampling: what the checks cost and leave to gain is told as one types; drawn at once, or under a beacon announced first.
import { ask, attempt, latest } from "../../lib/ask.js";
import { copyButton, field, number, select, textbox } from "../../lib/controls.js";
import { el, fill, name } from "../../lib/dom.js";
import { doing, fresh, pairs } from "./parts.js";

const PAUSE = 150; // milliseconds after a key

const asked = (form) => ({
  checks: form.checks.value.trim() === "" ? null : Number(form.checks.value),
  price: form.price.value.trim(),
  least: form.least.value.trim(),
  announce: { local: "", drand: "drand", other: form.announce.value.trim() }[form.by.value],
});

const published = (rows) =>
  el("details", {}, el("summary", {}, "To publish with it"),
    el("p", {}, "Give these to the payees before the beacon is known: with them anybody can work the draw out again."),
    el("dl", { class: "pairs" }, rows.map(([what, hash]) => [el("dt", {}, what), el("dd", {}, el("code", {}, hash))])),
    copyButton("Copy", () => rows.map((row) => row.join(" ")).join("\n"), "copy-publish"));

const drawnAlready = (place, { found }) =>
  fill(place, el("h2", {}, "Drawn"),
    el("p", {}, `${found.plan.checks} checks of each payee, power ${found.plan.power}. Drawn under `, name(found.drawn.beacon), found.drawn.announced ? [", announced as ", name(found.drawn.announced)] : null, "."),
    found.drawn.words.map((words) => el("p", {}, words)),
    el("p", {}, `${found.checks.length} checks are to be made. A plan cannot change after its draw.`),
    published(found.plan.publish));

export const showPlan = (place, page) => {
  const { found } = page;
  if (found.drawn) return drawnAlready(place, page);
  if (found.state !== "draft") return fill(place, el("h2", {}, "Sample"), el("p", {}, "No checks were drawn of this run, and none can be any more: only drafts are checked."));
  const plan = found.plan;
  const contact = textbox({ name: "contact", placeholder: "pool@example.org" });
  const until = el("input", { type: "date", name: "answer-by" });
  const draw = (as, label, body, ready = () => true, inputs = []) => doing({
    name: as, label, page, inputs, ready,
    work: async (under) => {
      const answer = await page.post("sample", { by: page.who.name, contact: contact.value.trim(), answer_by: until.value, ...body() }, { progress: under });
      await page.refresh({ ...(answer.drawn ? { step: "review" } : {}), done: [answer.words] });
      return null;
    },
  });
  const letters = [field({ label: "Where payees send their proof", control: contact, help: "For the letters; may stay empty." }),
    field({ label: "Answer by", control: until })];
  const waitsForBeacon = plan && plan.announced;
  const beacon = textbox({ name: "beacon", placeholder: "8f0c2b77..." });
  if (waitsForBeacon) {
    return fill(place, el("h2", {}, "Draw"),
      el("p", {}, "Tell the payees that the beacon will be ", name(plan.announced), "; once it is known, write its value here."),
      published(plan.publish),
      field({ label: "Beacon", control: beacon, help: "Drawn once: the same beacon again changes nothing, another is refused." }), letters,
      draw("draw", "Draw the units", () => ({ beacon: beacon.value }), () => beacon.value.trim() !== "", [beacon]));
  }
  const form = {
    checks: number({ name: "checks", min: 1, step: 1, value: plan ? plan.checks : Math.max(1, found.required) }),
    price: textbox({ name: "price", value: plan?.price || "", placeholder: "2.50" }),
    least: textbox({ name: "least", value: plan?.least || "", placeholder: "5.00" }),
    by: select({ name: "draw-by", value: "local", options: [
      { value: "local", label: "a local seed, at once" }, { value: "drand", label: "tomorrow's noon round of drand" },
      { value: "other", label: "another public number" }] }),
    announce: textbox({ name: "announcement", placeholder: "the hash of Bitcoin block 900000" }),
  };
  const foreseen = el("div", { class: "foreseen", "aria-live": "polite" });
  const progress = el("div");
  const topic = `plan ${fresh()}`; // of this form: another that takes its place must not drop its questions
  const preview = latest((signal) => ask("/api/payout/checks/preview", { body: { run: page.run, plan: asked(form) }, signal, progress, topic }));
  const announceField = field({ label: "Announced beacon", control: form.announce, help: "A value that nobody can know or choose, published later." });
  const now = draw("draw", "Draw the units", () => ({ plan: asked(form) }));
  const announce = draw("announce", "Announce", () => ({ plan: asked(form) }), () => form.by.value !== "other" || form.announce.value.trim() !== "", [form.announce]);
  const shape = () => {
    announceField.hidden = form.by.value !== "other";
    now.hidden = form.by.value !== "local";
    announce.hidden = !now.hidden;
    announce.check();
  };
  const look = async () => {
    const seen = await attempt(foreseen, preview);
    if (seen) fill(foreseen, pairs(seen.rows), seen.announced ? el("p", {}, "The beacon will be ", name(seen.announced), ".") : null, seen.notes.map((words) => el("p", { class: "note" }, words)));
  };
  let timer = 0;
  const typed = () => {
    shape();
    clearTimeout(timer);
    timer = setTimeout(look, PAUSE);
  };
  for (const each of Object.values(form)) each.addEventListener("input", typed);
  fill(place, el("h2", {}, "Sample the units to check"),
    el("p", {}, `A few units of every payee are drawn at random and checked before money goes out; ${found.forfeit === "unit" ? "what is found false earns nothing" : "who fails is paid nothing"}. The numbers follow as you type; nothing is written before you press a button.`),
    el("div", { class: "split" },
      el("div", {}, field({ label: "Checks of each payee", control: form.checks, help: found.required ? `At least ${found.required}: so many were promised when the run was paid.` : "" }),
        field({ label: "Price of a check", control: form.price, help: `What one check costs, in ${found.currency}; may stay empty.` }),
        field({ label: "Least payment", control: form.least, help: "Who is paid less is neither checked nor paid, and can hand the units in again." }),
        field({ label: "Drawn by", control: form.by }), announceField, letters),
      el("div", {}, el("h3", {}, "What this comes to"), progress, foreseen, now, announce)));
  shape();
  look();
  return () => clearTimeout(timer);
};
