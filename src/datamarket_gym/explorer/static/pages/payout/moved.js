// Where the inputs of a run are by now, if they were moved: kept in the address.
import { field, textbox } from "../../lib/controls.js";
import { el } from "../../lib/dom.js";

const SAID = { submissions: "submissions", validation: "validation rows", reference: "reference rows" };

/** Fields for paths on the machine that the explorer runs on; they must lie in folders that it was told to show. */
export const movedFields = (state) =>
  el("details", { open: Object.keys(SAID).some((each) => state.value[each]) },
    el("summary", {}, "The inputs were moved?"),
    el("p", { class: "soft" }, "Say where they are on the machine that the explorer runs on, in a folder that it was told to show. Left empty: where they were when the run was made."),
    Object.entries(SAID).map(([key, words]) =>
      field({ label: `Where the ${words} are now`, control: textbox({ name: `moved-${key}`, value: state.value[key], placeholder: "where they were", onchange: (value) => state.set({ [key]: value.trim() }) }) })));

/** Where the inputs are by now, as the address says. */
export const moved = (state) => ({ submissions: state.value.submissions, validation: state.value.validation, reference: state.value.reference });
