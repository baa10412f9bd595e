// "Copy as code": the Python and the TOML of what is on the screen, in a window with two tabs.

import { ask, problem } from "../../lib/ask.js";
import { button, dialog, tabs } from "../../lib/controls.js";
import { el, fill } from "../../lib/dom.js";
import { download } from "../../lib/files.js";

/** Opens the window for what was asked. */
export async function showCode(asked) {
  const body = el("div", { class: "as-code" }, el("p", { class: "soft" }, "Writing the code."));
  dialog("What is on the screen, as code", body);
  try {
    const code = await ask("/api/market/code", { body: asked });
    fill(body, tabs("code", { Python: listing(code.python, code.python_name, "python"), TOML: toml(code) }));
  } catch (error) {
    fill(body, problem(error));
  }
}

function toml(code) {
  return [
    listing(code.toml, code.toml_name, "toml"),
    el("p", { class: "soft" }, "Run it with ", el("code", {}, code.command), "."),
    code.left_out.length ? el("ul", { class: "soft" }, code.left_out.map((words) => el("li", {}, words))) : null,
  ];
}

function listing(text, file, kind) {
  const rows = Math.min(text.split("\n").length + 1, 24);
  const area = el("textarea", { class: "code", readonly: true, rows, spellcheck: "false", name: `listing-${kind}`, "aria-label": file, wrap: "off" }, text);
  const said = el("span", { class: "soft", role: "status" });
  return el(
    "div",
    {},
    el("div", { class: "tools" },
      button({ name: `copy-${kind}`, label: "Copy", onclick: () => copy(area, said) }),
      button({ name: `save-${kind}`, label: `Save as ${file}`, kind: "quiet", onclick: () => download(file, text, "text/plain") }), said),
    area,
  );
}

// Where the browser does not let a page write the clipboard, the text is selected, and the reader's keys copy it.
async function copy(area, said) {
  try {
    await navigator.clipboard.writeText(area.value);
    said.textContent = "Copied.";
  } catch {
    area.focus();
    area.select();
    said.textContent = "The text is selected: press Ctrl+C (or ⌘C) to copy it.";
  }
}
