// Settling: what it means stands there in words before it is done.
import { latest, problem } from "../../lib/ask.js";
import { field, select, textbox } from "../../lib/controls.js";
import { el, fill, name } from "../../lib/dom.js";
import { link } from "../../lib/url.js";
import { doing, fresh } from "./parts.js";

export const showSettle = (place, page) => {
  const { found } = page;
  const heading = el("h2", {}, "Settle the checks");
  if (found.later) return fill(place, heading, el("p", {}, "The checks of this run were settled, and another draft took its place: ", found.later.id ? el("a", { href: link("/payout/checks", { run: found.later.id }) }, name(found.later.id)) : name(found.later.name), "."));
  if (found.state !== "draft") return fill(place, heading, el("p", {}, "The checks are settled: everybody passed."), found.certificate ? el("p", { class: "note good" }, found.certificate) : null);
  if (!found.drawn) return fill(place, heading, el("p", {}, "There is nothing to settle: no checks were drawn."));
  const words = el("div", { class: "foreseen", "aria-live": "polite" });
  const progress = el("div");
  const unanswered = select({ name: "unanswered", value: "wait", options: [{ value: "wait", label: "wait for them" }, { value: "false", label: "their time is over: they fail" }], onchange: () => look() });
  const forfeited = select({ name: "forfeited", value: "keep", options: [{ value: "keep", label: "keep it" }, { value: "divide", label: "divide it among the others" }], onchange: () => look() });
  const folder = textbox({ name: "draft-name" });
  const folderField = field({ label: "Folder of the new draft", control: folder, help: "Beside this run's." });
  let seen = null;
  const chosen = () => ({ settling: { unanswered: unanswered.value, forfeited: forfeited.value } });
  const topic = `settling ${fresh()}`;
  const preview = latest((signal) => page.post("settling", chosen(), { signal, progress, topic }));
  const act = doing({
    name: "settle", label: "Settle", page, ready: () => seen !== null && !seen.waiting.length,
    work: async (under) => {
      const done = await page.post("settle", { ...chosen(), by: page.who.name, name: seen.new_draft ? folder.value.trim() : "" }, { progress: under, cancellable: true });
      await page.refresh({ step: "", done: [done.words, done.certificate || []].flat() });
      return null;
    },
  });
  const look = async () => {
    try {
      const now = await preview();
      if (!now) return;
      seen = now;
      if (!folder.value) folder.value = now.name;
      folderField.hidden = !now.new_draft;
      fill(words, now.words.map((each) => el("p", { class: now.waiting.length ? "note" : "" }, each)));
    } catch (error) {
      seen = null;
      fill(words, problem(error));
    }
    act.check();
  };
  fill(place, heading,
    field({ label: "Checks that nobody answered", control: unanswered }),
    field({ label: "What those who fail were to be paid", control: forfeited, help: "Kept, nobody gains by a name that was made to fail." }),
    el("h3", {}, "What settling would do"), progress, words, folderField, act);
  look();
};
