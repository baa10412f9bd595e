// What the page asks, as it stands in its address: components in the library's written form, blank where the preset says.

import { canonical } from "./spec.js";

export const PARTS = ["evidence", "granularity", "representative", "semivalue", "estimator", "samples", "allocation", "normalize", "leak_check"];

/** The state that an empty address means: as the server's defaults, the mechanism's parts left to the preset. */
export function defaultsOf({ defaults }) {
  return { ...defaults, empty: "", ...blanks() };
}

/** No part chosen: all as the preset has them. */
export const blanks = () => Object.fromEntries(PARTS.map((part) => [part, part === "samples" ? 0 : ""]));

/** The parts that were chosen. */
export const chosenParts = (state) => PARTS.filter((part) => state[part] !== blanks()[part]);

/** The question that a state stands for: blanks are left out. */
export function askedOf(state) {
  const given = Object.entries(state).filter(([key, value]) => value !== "" && !(key === "samples" && value === 0));
  return Object.fromEntries(given.map(([key, value]) => [key, key === "normalize" ? value === "yes" : value]));
}

/** What a part of the mechanism is: as chosen, else as the preset has it. */
export function partOf(state, part, options) {
  const chosen = state[part];
  if (chosen !== "" && !(part === "samples" && chosen === 0)) return chosen;
  const preset = options.mechanisms.find((each) => each.name === state.mechanism)?.parts[part];
  return part === "normalize" ? yesNo(preset) : (preset ?? "");
}

/** The change that makes a part so: a blank where the preset says the same. */
export function partSet(state, part, value, options) {
  const preset = partOf({ ...state, ...blanks() }, part, options);
  const choices = options[`${part}s`] ?? options[part];
  const same = typeof value === "string" && choices ? canonical(value, choices) === canonical(preset, choices) : value === preset;
  return { [part]: same ? blanks()[part] : value };
}

function yesNo(value) {
  return value === null || value === undefined ? "" : value ? "yes" : "no";
}
