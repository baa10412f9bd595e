// A control for a component (one of several choices) and for each of its parameters, from their descriptions.

import { checkbox, field, number, select, slider, textbox } from "../../lib/controls.js";
import { read, whole, write } from "./spec.js";

export const words = (name) => name.replaceAll("_", " ");

/**
 * The controls of a component. `text` is its written form; `set(text, {structure})` is told the new one, and whether
 * other controls than before belong to it. Choices that cannot be had are there, disabled, with the reason.
 */
export function component({ name, label, choices, text, task, set }) {
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
export function amount(name, { min, max, step, kind }, value, tell) {
  if ((max - min) / step > MOST_PLACES) return number({ name, value, min, max, step: kind === "int" ? 1 : "any", onchange: tell });
  const low = name.endsWith("-theta") ? Math.min(Math.max(min, 0), value) : min; // below zero nobody looks, unless asked to
  return slider({ name, min: low, max, step, value, oninput: (next) => tell(next) });
}
