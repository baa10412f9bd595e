// The controls: which rows, which of them are shown, and what the check simulates.
import { attempt, upload } from "../../lib/ask.js";
import { field, number, select, textbox } from "../../lib/controls.js";
import { el, fill, many } from "../../lib/dom.js";

const COLUMNS = [
  ["embedding", "Embedding", "a list column, numbered columns, or several separated by commas"],
  ["features", "Features", "compared where there is no embedding"],
  ["label", "Label", ""],
  ["identity", "Identity", "who submitted the row"],
  ["text", "Text to embed", "only if the rows have neither embedding nor features"],
];
const NUMBERS = [
  ["providers", "Providers", 2, 100, 1, "in a simulated market"],
  ["per_provider", "Units of each", 1, 2000, 1, ""],
  ["trials", "Simulated markets", 1, 300, 1, ""],
  ["cutoff", "Tolerated share of mixed components", 0.01, 0.99, 0.01, "what the chaining bound keeps below"],
  ["seed", "Seed", 0, 2 ** 31, 1, "of the simulation and of samples"],
];

const typed = (name, options, onchange) => {
  const list = el("datalist", { id: `list-${name}` }, options.map((each) => el("option", { value: each.value, label: each.label })));
  const input = textbox({ name, onchange });
  input.setAttribute("list", list.id);
  return el("div", { class: "typed" }, input, list);
};

const grouped = (sources) => {
  const groups = new Map();
  for (const each of sources) groups.set(each.group, [...(groups.get(each.group) || []), each]);
  return [...groups].map(([label, options]) => el("optgroup", { label }, options.map((each) => el("option", { value: each.value }, each.label))));
};

/** A part of the page; `change(changes, push)` is called when the reader changes something. */
export class Side {
  constructor(choices, change, again) {
    this.change = change;
    this.source = select({ name: "source", options: [], onchange: (source) => change({ source, columns: {}, content: "", example: 1 }, true) });
    this.told = el("div", { role: "status" });
    const file = el("input", { type: "file", name: "upload", accept: ".parquet,.csv,.tsv,.jsonl,.arrow,.feather,.xlsx,.npy,.npz", on: { change: () => this.send(file, again) } });
    const set = (role) => (text) => change({ columns: Object.fromEntries(Object.entries({ ...this.columns, [role]: text.trim() }).filter(([, each]) => each)) });
    this.table = el("details", { class: "table-columns", open: true }, el("summary", {}, "Columns of the table"), el("div", {},
      el("p", { class: "soft" }, "Columns with the usual names are found without being named."),
      COLUMNS.map(([role, label, help]) => field({ label, help, control: textbox({ name: role, placeholder: role, onchange: set(role) }) })),
      field({ label: "Text to look at", help: "shown side by side; column text if there is one", control: textbox({ name: "content", placeholder: "text", onchange: (content) => change({ content: content.trim() }) }) })));
    this.node = el("div", { class: "side" },
      field({ label: "Rows", control: this.source }),
      field({ label: "Or a table of your own", help: "columns as for datamarket theta and pay", control: file }), this.told, this.table,
      field({
        label: "Shown below",
        help: "what merges, and the examples, are of these rows",
        control: select({
          name: "shown",
          options: [{ value: "sample", label: `a sample of at most ${many(choices.most)} rows` }, { value: "market", label: "the first simulated market" }],
          onchange: (shown) => change({ shown, example: 1 }),
        }),
      }),
      el("details", { open: innerWidth > 832 }, el("summary", {}, "What the check simulates"), el("div", {},
        field({ label: "How honest providers come by rows", help: "empty: as these rows are usually dealt; identities: their own", control: typed("partition", [...choices.partitions, { value: "identities", label: "the rows' own identities" }], (partition) => change({ partition: partition.trim() })) }),
        NUMBERS.map(([key, label, min, max, step, help]) => field({ label, help, control: number({ name: key, min, max, step, onchange: (value) => change({ [key]: value }) }) })),
        field({ label: "Copies that must be matched", help: "the attack that makes them", control: typed("variants", choices.variants, (variants) => change({ variants: variants.trim() || choices.defaults.variants })) }))),
      choices.missing.length ? el("p", { class: "soft" }, `Not on this machine: ${choices.missing.join(", ")}. Name the folder that holds their embeddings by --data, or make them by datamarket embed.`) : null);
    this.offer(choices.sources);
  }

  offer(sources) {
    this.sources = sources;
    fill(this.source, grouped(sources));
  }

  /** Show a state; a source that is not offered is named as it stands. */
  show(state) {
    this.columns = state.columns;
    if (!this.sources.some((each) => each.value === state.source)) this.offer([...this.sources, { value: state.source, label: state.source, group: "Not found" }]);
    this.source.value = state.source;
    this.table.hidden = !state.source.startsWith("upload:");
    for (const input of this.node.querySelectorAll("input[name], select[name=shown]")) {
      if (input.type === "file") continue;
      const value = input.name in state ? state[input.name] : state.columns[input.name] || "";
      if (input !== document.activeElement || input.value === "") input.value = value;
    }
  }

  send(file, again) {
    const chosen = file.files[0];
    return chosen && attempt(this.told, async () => {
      const kept = await upload(chosen, (sent, total) => fill(this.told, `Uploading ${chosen.name}: ${Math.round((100 * sent) / total)} %`));
      fill(this.told);
      file.value = "";
      await again();
      this.change({ source: `upload:${kept.id}`, columns: {}, content: "", example: 1 }, true);
    });
  }
}
