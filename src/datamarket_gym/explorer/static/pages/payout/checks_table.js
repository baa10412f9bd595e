// Answers that lie in a table, such as that of several people: recorded all together, or not at all.
import { upload } from "../../lib/ask.js";
import { checkbox, field } from "../../lib/controls.js";
import { el } from "../../lib/dom.js";
import { doing, good } from "./checks_parts.js";

export const answerTable = (page) => {
  const file = el("input", { type: "file", name: "answers-file", accept: ".csv,.tsv,.parquet,.jsonl,.xlsx", on: { change: () => act.check() } });
  let correct = false;
  const act = doing({
    name: "record-table", label: "Record the table", kind: "quiet", ready: () => file.files.length > 0,
    work: async (under) => {
      if (!page.named()) return null;
      const { id } = await upload(file.files[0]);
      const done = await page.post("record-table", { by: page.who.name, upload: id, correct }, { progress: under });
      await page.refresh();
      return good(done.words);
    },
  });
  return el("details", {}, el("summary", {}, "Answers in a table"),
    field({ label: "Table", control: file, help: "Columns number (or unit), outcome (genuine, false, unanswered), note, by: as checks.html saves them. All are recorded, or none." }),
    checkbox({ name: "answers-correct", label: "Where they differ from earlier answers, they take their place", onchange: (yes) => (correct = yes) }),
    act);
};
