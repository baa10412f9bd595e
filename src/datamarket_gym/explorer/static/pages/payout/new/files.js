// The files of a payout run: chosen, dropped, or taken from a folder that was named when the explorer was started.
import { problem, upload } from "../../../lib/ask.js";
import { button, select, textbox } from "../../../lib/controls.js";
import { el, fill, name } from "../../../lib/dom.js";

const WHAT = {
  submissions: ["Submissions", "One row for each unit: who submitted it, and what it is."],
  validation: ["Validation rows", "Rows like those that are wanted, with the same features."],
  reference: ["Reference rows", "Other honest units, on which the threshold is measured: for fewer than 500 validation rows."],
  "files.scores": ["Scores of another tool", "What each unit is worth on each validation row, for the utility “scores”."],
  overrides: ["Overrides", "Splits and joins that somebody signed off, as TOML."],
  "linkage.edges": ["Edges", "Your own table id_l, id_r, probability of who is one payee."],
  "files.features": ["Features of the submissions", "A matrix, row by row, where the table has none."],
  "files.embedding": ["Embeddings of the submissions", "A matrix of what similarity compares."],
  "files.validation_features": ["Features of the validation rows", "A matrix, likewise."],
  "files.reference_features": ["Features of the reference rows", "A matrix, likewise."],
};

/** Bytes for people. */
export const bytes = (count) => {
  const step = [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]].find(([, size]) => count >= size);
  return step ? `${(count / step[1]).toLocaleString("en", { maximumFractionDigits: 1 })} ${step[0]}` : `${count} bytes`;
};

const PARTS = { ".xlsx": "Sheet, if there are several", ".npz": "Array, if there are several" };
const ending = (text) => text.toLowerCase().match(/\.[a-z]+$/)?.[0] || "";

const card = (page, role, known) => {
  const { state, form, site } = page;
  const [title, words] = WHAT[role];
  const endings = form.roles[role];
  const lying = form.files.filter((each) => endings.includes(each.ending));
  const body = el("div", { class: "chosen" });
  const said = el("div", { "aria-live": "polite" });
  const put = (id) => {
    const files = { ...state.value.files };
    if (id) files[role] = id;
    else delete files[role];
    state.set({ files }, { push: true });
  };
  const take = async (file) => {
    if (!file) return;
    if (file.size > site.limit) {
      fill(said, el("p", { class: "note bad", role: "alert" }, `${file.name} has ${bytes(file.size)}; a file may have ${bytes(site.limit)} here. Start the explorer with a larger --upload-limit, or name the file's folder on the command line.`));
      return;
    }
    const line = el("span", {}, `Sending ${file.name}`);
    const bar = el("progress", { max: 1, value: 0, "aria-label": `Sending ${file.name}` });
    fill(said, el("div", { class: "progress", role: "status" }, line, bar));
    try {
      const kept = await upload(file, (sent, total) => {
        line.textContent = `Sending ${file.name}: ${bytes(sent)} of ${bytes(total)}`;
        bar.value = total ? sent / total : 1;
      });
      fill(said);
      known.set(`upload:${kept.id}`, kept);
      put(`upload:${kept.id}`);
    } catch (error) {
      fill(said, problem(error));
    }
  };
  const input = el("input", {
    type: "file", name: `file-${role}`, accept: endings.join(","), class: "pick", "aria-label": `${title}: choose a file`,
    on: { change: (event) => { take(event.target.files[0]); event.target.value = ""; } },
  });
  const node = el("div", {
    class: "card drop", "data-role": role,
    on: {
      dragover: (event) => { event.preventDefault(); node.classList.add("over"); },
      dragleave: () => node.classList.remove("over"),
      drop: (event) => { event.preventDefault(); node.classList.remove("over"); take(event.dataTransfer.files[0]); },
    },
  });
  const from = lying.length
    ? select({ name: `lying-${role}`, value: "", options: [{ value: "", label: "or one from a folder …" }, ...lying.map((each) => ({ value: each.id, label: `${each.id} (${bytes(each.size)})` }))], onchange: (id) => id && put(id) })
    : null;
  if (from) from.setAttribute("aria-label", `${title}: a file from a folder`);
  fill(node, el("h3", {}, title), el("p", { class: "soft" }, words), body,
    el("div", { class: "ways" }, el("label", { class: "choose" }, input, el("span", {}, "Choose a file")), from),
    el("p", { class: "soft small" }, `${endings.join(" ")} · up to ${bytes(site.limit)} · or drop it here`), said);
  let shown = null;
  const part = (id, member, about) => {
    const asked = PARTS[ending(about?.name || id)];
    return asked ? textbox({ name: `member-${role}`, value: member, placeholder: asked, onchange: (value) => put(value.trim() ? `${id}#${value.trim()}` : id) }) : null;
  };
  return {
    node,
    refresh: () => {
      const whole = state.value.files[role] || "";
      if (whole === shown) return;
      shown = whole;
      const [id, member = ""] = whole.split("#");
      const about = known.get(id);
      if (from) from.value = lying.some((each) => each.id === id) ? id : "";
      node.classList.toggle("has", Boolean(id));
      fill(body, id ? [el("p", {}, name(about?.name || (id.startsWith("upload:") ? "an upload" : id)), about ? el("span", { class: "soft" }, ` ${bytes(about.size)}`) : null), part(id, member, about), button({ name: `remove-${role}`, label: "Remove", kind: "quiet", onclick: () => put("") })] : null);
    },
  };
};

/** The cards of all files; those that are seldom needed are folded away until one is used. */
export const filesView = (page) => {
  const known = new Map([...page.form.uploads.map((each) => [each.id, each]), ...page.form.files.map((each) => [each.id, { name: each.id, size: each.size }])]);
  const cards = Object.keys(WHAT).map((role) => [role, card(page, role, known)]);
  const [first, more] = [cards.slice(0, 2), cards.slice(2)];
  const used = more.some(([role]) => page.state.value.files[role]);
  const node = el("div", {},
    el("div", { class: "cards two" }, first.map(([, each]) => each.node)),
    el("details", { open: used, name: "more-files" }, el("summary", {}, "More files: reference rows, scores, overrides, edges, embeddings"),
      el("div", { class: "cards" }, more.map(([, each]) => each.node))));
  return { node, refresh: () => cards.forEach(([, each]) => each.refresh()) };
};
