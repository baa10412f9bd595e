// The controls of the page, in groups; those used most come first and are open on a phone.

import { field, select } from "../../lib/controls.js";
import { el, fill } from "../../lib/dom.js";
import { fitting } from "./fitting.js";
import { amount, component, offered, words } from "./parameters.js";
import { read } from "./spec.js";
import { blanks, chosenParts, partOf, partSet } from "./state.js";

/**
 * The form for options and a state of the address. A slider changes the state in place; what may bring other controls
 * is a step that back undoes, and the form is made anew, with the same groups open and the same control in focus.
 */
export function form(options, state) {
  const node = el("form", { class: "side market-form", "aria-label": "The market, the attack and the mechanism", on: { submit: (event) => event.preventDefault() } });
  const narrow = window.matchMedia("(max-width: 52rem)").matches;
  const open = { attack: true, mechanism: true, checks: !narrow, market: !narrow, scoring: false };
  const group = (key, title, ...controls) =>
    el("details", { open: open[key], "data-group": key, on: { toggle: (event) => (open[key] = event.target.open) } }, el("summary", {}, title), el("div", {}, controls));
  const make = () => {
    const held = node.contains(document.activeElement) ? document.activeElement.name : "";
    const at = node.scrollTop;
    fill(node, groups(options, state, change).map(([key, title, controls]) => group(key, title, controls)));
    narrowAttacker(node, state.value);
    node.scrollTop = at;
    if (held) node.querySelector(`[name="${CSS.escape(held)}"]`)?.focus({ preventScroll: true });
  };
  const change = (changes, { structure = false } = {}) => {
    const providers = changes.providers ?? state.value.providers;
    state.set({ ...changes, attacker: Math.min(changes.attacker ?? state.value.attacker, providers - 1) }, { push: structure });
    if (structure) make();
    else narrowAttacker(node, state.value);
  };
  make();
  return { node, make };
}

/** Only a provider that is there can attack. */
function narrowAttacker(node, { attacker, providers }) {
  for (const input of node.querySelectorAll("[name=attacker], [name=attacker-number]")) {
    input.max = providers - 1;
    if (Number(input.value) !== attacker) input.value = attacker;
  }
}

function groups(options, state, change) {
  const now = state.value;
  const task = read(now.task, options.tasks).name;
  const known = (key, label, choices) =>
    component({ name: key, label, choices, text: now[key], task, set: (text, how) => change({ [key]: text, ...(key === "task" ? fitting(state.value, text, options) : {}) }, how) });
  const part = (key, label, choices) =>
    component({ name: key, label, choices, text: partOf(now, key, options), task, set: (text, how) => change(partSet(state.value, key, text, options), how) });
  const range = (key, label) =>
    field({ label, help: options.controls[key].help === label ? "" : options.controls[key].help, control: amount(key, options.controls[key], now[key], (value) => change({ [key]: value })) });
  const one = (key, label, choices) =>
    field({ label, help: choices.find((each) => each.name === now[key])?.title, control: select({ name: key, options: choices.map((each) => offered(each, task)), value: now[key], onchange: (value) => change({ [key]: value }, { structure: true }) }) });
  const partOne = (key, label, choices) => {
    const value = partOf(now, key, options);
    const pick = (next) => change(partSet(state.value, key, next, options), { structure: true });
    return field({ label, help: choices.find((each) => each.name === value)?.title, control: select({ name: key, options: choices.map((each) => offered(each, task)), value, onchange: pick }) });
  };
  return [
    ["attack", "The attack", [
      known("attack", "Attack", options.attacks),
      range("knowledge", "What the attacker knows of the others"),
      range("attacker", "Which provider attacks"),
    ]],
    ["mechanism", "The mechanism", [preset(options, state, change), part("evidence", "Evidence", options.evidence)]],
    ["checks", "Checks", [range("checks", "Checks a payee (m)"), range("power", "Found if false (q)")]],
    ["market", "The market", [
      known("task", "Task", options.tasks), range("providers", "Providers"), range("units", "Units each"), range("seed", "Seed"), one("times", "Times", options.times),
    ]],
    ["scoring", "Scoring and sharing", [
      partOne("granularity", "Who plays", options.granularity),
      part("representative", "Representative", options.representatives),
      known("learner", "Utility", options.learners),
      empty(options, now, change),
      part("semivalue", "Semivalue", options.semivalues),
      part("allocation", "Allocation within a cluster", options.allocations),
      part("estimator", "Estimator", options.estimators),
      field({ label: "Samples", help: options.controls.samples.help, control: amount("samples", options.controls.samples, partOf(now, "samples", options), (value) => change(partSet(state.value, "samples", value, options))) }),
      normalize(options, state, change),
      partOne("leak_check", "Units that are validation rows", options.leak_check),
    ]],
  ];
}

/** Choosing a preset blanks the parts, so that they are the preset's. */
function preset(options, state, change) {
  const now = state.value;
  const changed = chosenParts(now).map(words);
  const choice = options.mechanisms.find((each) => each.name === now.mechanism);
  const pick = (mechanism) => change({ mechanism, ...blanks() }, { structure: true });
  const list = options.mechanisms.map((each) => offered(each, read(now.task, options.tasks).name));
  if (!choice) list.unshift({ value: now.mechanism, label: `${now.mechanism} (not known here)` });
  const help = [choice?.title, changed.length ? `Changed: ${changed.join(", ")}.` : ""].filter(Boolean).join(" ");
  return field({ label: "Mechanism", help, control: select({ name: "mechanism", options: list, value: now.mechanism, onchange: pick }) });
}

/** What accuracy is counted from; only where the learner leaves a choice. */
function empty(options, now, change) {
  const learner = options.learners.find((each) => each.name === read(now.learner, options.learners).name);
  const allowed = options.empty.filter((each) => !learner || learner.empty.includes(each.name));
  const list = [{ value: "", label: `as the utility is paid from${learner ? ` (${learner.paid_from})` : ""}` }, ...allowed.map((each) => offered(each, ""))];
  return field({ label: "Value of no data", help: "", control: select({ name: "empty", options: list, value: now.empty, onchange: (value) => change({ empty: value }, { structure: true }) }) });
}

function normalize(options, state, change) {
  const pick = (value) => change(partSet(state.value, "normalize", value, options), { structure: true });
  return field({
    label: "Rescale payments to what all data are worth",
    control: select({ name: "normalize", options: [{ value: "no", label: "no" }, { value: "yes", label: "yes" }], value: partOf(state.value, "normalize", options), onchange: pick }),
  });
}
