// What goes with a task: a utility of classes is no good for numbers, and an attack on texts for images.

import { offered } from "./parameters.js";
import { read, whole } from "./spec.js";

/** The changes that a new task brings: an attack and a utility that cannot be had with it give way to ones that can. */
export function fitting(state, task, options) {
  const { name } = read(task, options.tasks);
  const changes = {};
  for (const [key, choices] of [["attack", options.attacks], ["learner", options.learners]]) {
    const candidates = [state[key], options.defaults[key], ...choices.map((choice) => choice.name)];
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
