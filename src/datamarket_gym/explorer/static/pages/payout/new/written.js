// The same payout run as a command line, and as a file of settings.
import { copyButton } from "../../../lib/controls.js";
import { el, fill } from "../../../lib/dom.js";

const block = (heading, name, text) =>
  el("div", { class: "written" }, el("div", { class: "tools" }, el("strong", {}, heading), copyButton("Copy", () => text, `copy-${name}`)), el("pre", { "data-written": name }, text));

/** The command line and the TOML. */
export const writtenView = (page) => {
  const place = el("div");
  const node = el("details", { name: "as-command" }, el("summary", {}, "The same on the command line"), place);
  return {
    node,
    tell: ({ command, config, toml }) => {
      const uploads = Object.values(page.state.value.files).some((id) => id.startsWith("upload:"));
      fill(place, command
        ? [
            uploads ? el("p", { class: "soft" }, "Files that were uploaded go by their own names: run it in the folder where they lie.") : null,
            block("Command line", "command", command), block("Or with a file payout.toml", "config", config), block("payout.toml", "toml", toml),
          ]
        : el("p", { class: "soft" }, "When both tables are there and the settings are good, the command stands here."));
    },
  };
};
