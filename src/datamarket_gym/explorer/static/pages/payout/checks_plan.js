// Planning checks: what they cost and leave to gain is told as one types, and entered with the button alone.
import { ask, attempt, latest } from "../../lib/ask.js";
import { copyButton, field, number, select, textbox } from "../../lib/controls.js";
import { el, fill, name } from "../../lib/dom.js";
import { doing, fresh, good, pairs } from "./parts.js";

const PAUSE = 150; // milliseconds after a key

const asked = (form) => {
  const value = (key) => form[key].value.trim();
  const figure = (key) => (value(key) === "" ? null : Number(value(key)));
  const by = form.by.value;
  return {
    checks: by === "checks" ? figure("checks") : null,
    gain: by === "gain" && figure("gain") !== null ? figure("gain") / 100 : null,
    power: figure("power"),
    price: value("price"),
    least: value("least"),
    false_alarms: (figure("false_alarms") || 0) / 100,
    announce: value("announce"),
  };
};

const published = (rows) =>
  el("details", {}, el("summary", {}, "To publish with it"),
    el("p", {}, "Give these to the payees before the beacon is known: with them anybody can work the draw out again."),
    el("dl", { class: "pairs" }, rows.map(([what, hash]) => [el("dt", {}, what), el("dd", {}, el("code", {}, hash))])),
    copyButton("Copy", () => rows.map((row) => row.join(" ")).join("\n"), "copy-publish"));

const drawnAlready = (place, { found }) =>
  fill(place, el("h2", {}, "Planned and drawn"),
    el("p", {}, `${found.plan.checks} checks of each payee, power ${found.plan.power}. Drawn under the beacon `, name(found.drawn.beacon), found.plan.announced ? [", announced as ", name(found.plan.announced)] : ", which was not announced beforehand", "."),
    found.drawn.words.map((words) => el("p", {}, words)),
    el("p", {}, `${found.checks.length} checks are to be made. A plan cannot change after its draw.`),
    published(found.plan.publish));

export const showPlan = (place, page) => {
  const { found } = page;
  if (found.drawn) return drawnAlready(place, page);
  if (found.state !== "draft") return fill(place, el("h2", {}, "Plan and draw"), el("p", {}, "No checks were drawn of this run, and none can be any more: only drafts are checked."));
  const plan = found.plan;
  const form = {
    by: select({ name: "plan-by", value: "checks", options: [{ value: "checks", label: "a number of checks" }, { value: "gain", label: "what may be left to gain" }] }),
    checks: number({ name: "checks", min: 1, step: 1, value: plan ? plan.checks : Math.max(1, found.required) }),
    gain: number({ name: "gain", min: 0, max: 100, value: 1 }),
    power: number({ name: "power", min: 0, max: 1, value: plan ? plan.power : found.power }),
    price: textbox({ name: "price", value: plan?.price || "", placeholder: "2.50" }),
    least: textbox({ name: "least", value: plan?.least || "", placeholder: "5.00" }),
    false_alarms: number({ name: "false_alarms", min: 0, max: 100, value: plan ? 100 * plan.false_alarms : 0 }),
    announce: textbox({ name: "announce", value: plan?.announced || "", placeholder: "the hash of Bitcoin block 900000" }),
  };
  const foreseen = el("div", { class: "foreseen", "aria-live": "polite" });
  const progress = el("div");
  const topic = `plan ${fresh()}`; // of this form: another that takes its place must not drop its questions
  const preview = latest((signal) => ask("/api/payout/checks/preview", { body: { run: page.run, plan: asked(form) }, signal, progress, topic }));
  const look = async () => {
    checksField.hidden = form.by.value !== "checks";
    gainField.hidden = form.by.value !== "gain";
    const seen = await attempt(foreseen, preview);
    if (seen) fill(foreseen, pairs(seen.rows), seen.notes.map((words) => el("p", { class: "note" }, words)));
  };
  let timer = 0;
  const typed = () => {
    clearTimeout(timer);
    timer = setTimeout(look, PAUSE);
  };
  const checksField = field({ label: "Checks of each payee", control: form.checks, help: found.required ? `At least ${found.required}: so many were promised when the run was paid.` : "" });
  const gainField = field({ label: "Left to gain, at most (%)", control: form.gain, help: "In expectation, as a part of what is paid." });
  for (const each of Object.values(form)) each.addEventListener("input", typed);
  const enter = doing({
    name: "plan", label: plan ? "Plan again" : "Plan", page,
    work: async (under) => {
      await page.post("plan", { by: page.who.name, plan: asked(form) }, { progress: under });
      await page.refresh();
      return null;
    },
  });
  const beacon = textbox({ name: "beacon", placeholder: "00000000000000000001ab34..." });
  const draw = doing({
    name: "draw", label: "Draw the units", page, inputs: [beacon], ready: () => beacon.value.trim() !== "",
    work: async (under) => {
      const answer = await page.post("draw", { by: page.who.name, beacon: beacon.value }, { progress: under });
      await page.refresh({ step: "review" });
      return good(answer.words);
    },
  });
  fill(place, el("h2", {}, "Plan the checks"),
    el("p", {}, "A few units of every payee are drawn at random and checked before money goes out; who fails is paid nothing. The numbers follow as you type; nothing is written before you press Plan."),
    el("div", { class: "split" },
      el("div", {}, field({ label: "Plan by", control: form.by }), checksField, gainField,
        field({ label: "Power of a check", control: form.power, help: "How often the check of a false unit fails: 0 to 1." }),
        field({ label: "Price of a check", control: form.price, help: `What one check costs, in ${found.currency}; may stay empty.` }),
        field({ label: "Least payment", control: form.least, help: "Who is paid less is neither checked nor paid, and can hand the units in again." }),
        field({ label: "False alarms (%)", control: form.false_alarms, help: "How often a check takes a genuine unit for a false one." }),
        field({ label: "Announced beacon", control: form.announce, help: "What the beacon will be: a value that nobody can know or choose, published later." })),
      el("div", {}, el("h3", {}, "What this plan comes to"), progress, foreseen, enter)),
    plan ? el("div", { class: "card" }, el("h3", {}, "Draw"),
      el("p", {}, plan.announced ? ["Planned. Tell the payees that the beacon will be ", name(plan.announced), "; once it is known, write it here."] : "Planned, and no beacon was announced: plan again with one, or payees have only your word that it was not chosen."),
      published(plan.publish),
      field({ label: "Beacon", control: beacon, help: "Drawn once: the same beacon again changes nothing, another is refused." }), draw) : null);
  look();
  return () => clearTimeout(timer);
};
