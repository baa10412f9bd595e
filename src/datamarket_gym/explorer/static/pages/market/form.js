// The controls of the page: components in the written form of the library, a control for each parameter, in groups.
import { checkbox, field, number, select, slider, textbox } from "../../lib/controls.js";
import { el, fill } from "../../lib/dom.js";

/** {name, parameters} of a written form; parameters by the names that the choice gives them. */
export function read(text, choices) {
  const [, name, single, several] = /^\s*([\w.-]+)\s*(?:@\s*([^]+?)|\(([^]*)\))?\s*$/.exec(text) ?? [null, text];
  const known = choices.find((choice) => choice.name === name)?.parameters ?? [];
  const parameters = {};
  if (single !== undefined && known.length) parameters[known[0].name] = value(single);
  for (const item of items(several ?? "")) {
    const equals = item.indexOf("=");
    if (equals > 0) parameters[item.slice(0, equals).trim()] = value(item.slice(equals + 1).trim());
  }
  return { name, parameters };
}

/**
 * The written form of a choice with these parameters: what is as by default is left out. Parameters are named: which
 * is the first, that name@value means, cannot be known here, where some are not offered.
 */
function write(choice, parameters) {
  const given = choice.parameters.filter(({ name, default: usual }) => (parameters[name] ?? usual) !== usual);
  if (!given.length) return choice.name;
  return `${choice.name}(${given.map(({ name, kind }) => `${name}=${text(parameters[name], kind)}`).join(", ")})`;
}

/** A written form as `write` has it, so that two can be compared. */
function canonical(form, choices) {
  const { name, parameters } = read(form, choices);
  const choice = choices.find((each) => each.name === name);
  return choice ? write(choice, parameters) : form;
}

/** Every parameter's value: as given, else as by default. */
function whole(choice, parameters) {
  return Object.fromEntries(choice.parameters.map(({ name, default: usual }) => [name, parameters[name] ?? usual]));
}

// The text between commas that stand outside quotes and brackets.
function items(inner) {
  const parts = [""];
  let depth = 0;
  let quote = "";
  for (let at = 0; at < inner.length; at++) {
    const sign = inner[at];
    if (quote && sign === "\\") parts[parts.length - 1] += inner[at++];
    else if (quote && sign === quote) quote = "";
    else if (!quote && (sign === "'" || sign === '"')) quote = sign;
    else if (!quote && "([{".includes(sign)) depth += 1;
    else if (!quote && ")]}".includes(sign)) depth -= 1;
    if (sign === "," && !quote && depth === 0) parts.push("");
    else parts[parts.length - 1] += inner[at] ?? "";
  }
  return parts.map((part) => part.trim()).filter(Boolean);
}

function value(written) {
  if (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(written)) return Number(written);
  if (/^(true|false)$/i.test(written)) return written.toLowerCase() === "true";
  const quoted = /^(['"])([^]*)\1$/.exec(written);
  return quoted ? quoted[2].replace(/\\(.)/g, "$1") : written;
}

function text(value, kind) {
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number") return kind === "float" && Number.isInteger(value) ? value.toFixed(1) : String(value);
  return /^[\w.+;:-]+$/.test(value) && !/^[\d.+-]/.test(value) ? value : `'${value.replace(/[\\']/g, "\\$&")}'`;
}

const PARTS = ["evidence", "granularity", "representative", "semivalue", "estimator", "samples", "allocation", "normalize", "leak_check"];

/** The state that an empty address means: as the server's defaults, the mechanism's parts left to the preset. */
export function defaultsOf({ defaults }) {
  return { ...defaults, empty: "", ...blanks() };
}

/** No part chosen: all as the preset has them. */
const blanks = () => Object.fromEntries(PARTS.map((part) => [part, part === "samples" ? 0 : ""]));

/** The parts that were chosen. */
const chosenParts = (state) => PARTS.filter((part) => state[part] !== blanks()[part]);

/** The question that a state stands for: blanks are left out. */
export function askedOf(state) {
  const given = Object.entries(state).filter(([key, value]) => value !== "" && !(key === "samples" && value === 0));
  return Object.fromEntries(given.map(([key, value]) => [key, key === "normalize" ? value === "yes" : value]));
}

/** What a part of the mechanism is: as chosen, else as the preset has it. */
function partOf(state, part, options) {
  const chosen = state[part];
  if (chosen !== "" && !(part === "samples" && chosen === 0)) return chosen;
  const preset = options.mechanisms.find((each) => each.name === state.mechanism)?.parts[part];
  return part === "normalize" ? yesNo(preset) : (preset ?? "");
}

/** The change that makes a part so: a blank where the preset says the same. */
function partSet(state, part, value, options) {
  const preset = partOf({ ...state, ...blanks() }, part, options);
  const choices = options[`${part}s`] ?? options[part];
  const same = typeof value === "string" && choices ? canonical(value, choices) === canonical(preset, choices) : value === preset;
  return { [part]: same ? blanks()[part] : value };
}

function yesNo(value) {
  return value === null || value === undefined ? "" : value ? "yes" : "no";
}

const words = (name) => name.replaceAll("_", " ");

/**
 * The controls of a component. `text` is its written form; `set(text, {structure})` is told the new one, and whether
 * other controls than before belong to it. Choices that cannot be had are there, disabled, with the reason.
 */
function component({ name, label, choices, text, task, set }) {
  const { name: chosen, parameters } = read(text, choices);
  const choice = choices.find((each) => each.name === chosen);
  const options = choices.map((each) => offered(each, task));
  if (!choice) options.unshift({ value: chosen, label: `${chosen} (not known here)` });
  const pick = (next) => set(write(choices.find((each) => each.name === next), {}), { structure: true });
  const why = choice ? offered(choice, task).why || choice.title : "";
  return [
    field({ label, help: why, control: select({ name, options, value: chosen, onchange: pick }) }),
    choice ? inner(name, choice, parameters, set) : null,
  ];
}

/** A choice as an option: what cannot be had with this task, or at all, says why. */
export function offered(choice, task) {
  const why = choice.available === false ? choice.why : (choice.not_for?.[task] ?? "");
  return { value: choice.name, label: why ? `${choice.label} (not here)` : choice.label, help: why || choice.title, disabled: Boolean(why), why };
}

function inner(name, choice, parameters, set) {
  let now = whole(choice, parameters);
  const change = (key, value, structure = false) => {
    now = { ...now, [key]: value };
    set(write(choice, now), { structure });
  };
  return choice.parameters.map((parameter) => {
    const tell = (value, structure) => change(parameter.name, value, structure);
    const help = choice.title === parameter.help ? "" : tidy(parameter); // said above
    return one(`${name}-${parameter.name}`, { ...parameter, help }, now[parameter.name], tell);
  });
}

/** A clause of a docstring as a line of its own: without the parameter's name before it and the semicolon after. */
const tidy = ({ name, help }) => help.replace(new RegExp(`^${name}: `), "").replace(/[;,:]\s*$/, "");

/** The control of one parameter. */
function one(name, parameter, value, tell) {
  const { kind, help, label } = parameter;
  if (kind === "bool") return checkbox({ name, label, checked: value, onchange: (next) => tell(next, true) });
  if (kind === "choice") {
    const pick = (text) => tell(parameter.choices.find((each) => String(each.value) === text).value, true);
    const options = parameter.choices.map((each) => ({ value: String(each.value), label: each.label }));
    return field({ label, help, control: select({ name, options, value: String(value), onchange: pick }) });
  }
  if (kind === "text") return field({ label, help, control: textbox({ name, value: value ?? "", onchange: (next) => tell(next, true) }) });
  return parameter.words?.length ? numberOrWord(name, label, parameter, value, tell) : field({ label, help, control: amount(name, parameter, value, tell) });
}

const NUMBER = "a number";

/** A number, or one of some words such as "auto": the slider is there while it is a number. */
function numberOrWord(name, label, parameter, value, tell) {
  const isNumber = typeof value === "number";
  const start = typeof parameter.default === "number" ? parameter.default : between(parameter);
  const options = [{ value: NUMBER, label: NUMBER }, ...parameter.words.map((each) => ({ value: String(each.value), label: each.label }))];
  const pick = (text) => tell(text === NUMBER ? start : parameter.words.find((each) => String(each.value) === text).value, true);
  return [
    field({ label, help: isNumber ? "" : parameter.help, control: select({ name: `${name}-kind`, options, value: isNumber ? NUMBER : String(value), onchange: pick }) }),
    isNumber ? field({ label: `${label}, the number`, help: parameter.help, control: amount(name, parameter, value, tell) }) : null,
  ];
}

// Where a word gives way to a number: near the upper end, where thresholds are.
const between = ({ kind, min, max }) => (kind === "int" ? min : Math.round(100 * (max - 0.05 * (max - min))) / 100);

const MOST_PLACES = 5000;

/** A slider, or a box for a number where a slider would have too many places. */
function amount(name, { min, max, step, kind }, value, tell) {
  if ((max - min) / step > MOST_PLACES) return number({ name, value, min, max, step: kind === "int" ? 1 : "any", onchange: tell });
  const low = name.endsWith("-theta") ? Math.min(Math.max(min, 0), value) : min; // below zero nobody looks, unless asked to
  return slider({ name, min: low, max, step, value, oninput: (next) => tell(next) });
}

/** The changes that a new task brings: an attack and a utility that cannot be had with it give way to ones that can. */
function fitting(state, task, options) {
  const { name } = read(task, options.tasks);
  const changes = {};
  for (const [key, choices] of [["attack", options.attacks], ["learner", options.learners]]) {
    const suited = options.tasks.find((each) => each.name === name)?.suited?.[key] ?? options.defaults[key];
    const candidates = [state[key], suited, ...choices.map((choice) => choice.name)];
    const found = candidates.find((text) => fits(text, choices, name, options.labels[name]));
    if (found !== undefined && found !== state[key]) changes[key] = found;
  }
  if ("learner" in changes) changes.empty = "";
  return changes;
}

function fits(text, choices, task, labels) {
  const { name, parameters } = read(text, choices);
  const choice = choices.find((each) => each.name === name);
  if (!choice || offered(choice, task).disabled) return false;
  return !(labels === "number" && whole(choice, parameters).labels === true); // equal labels are rare among numbers
}

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
