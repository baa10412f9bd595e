// The list of paydays: books, runs and where they stand.
import { ask, problem } from "../lib/ask.js";
import { el, fill, name, seen } from "../lib/dom.js";
import { table } from "../lib/table.js";
import { link, urlState } from "../lib/url.js";
import { moment, stateTag } from "./payday/stands.js";

export const title = "Payday";

const many = (n) => n.toLocaleString("en");

const bookCard = (book) =>
  el("li", { class: "card" },
    el("a", { href: link("/payday/book", { book: book.book }) }, name(book.book)),
    book.broken
      ? el("p", { class: "note bad" }, seen(book.broken))
      : el("p", { class: "soft" }, `${many(book.runs)} ${book.runs === 1 ? "run" : "runs"}, ${many(book.entries)} entries, the last on ${moment(book.at)} UTC`,
        book.disputes ? `; ${many(book.disputes)} open ${book.disputes === 1 ? "dispute" : "disputes"}` : ""));

const runTable = (runs, state) =>
  table({
    name: "runs",
    caption: "",
    rows: runs.map((run) => ({ ...run, warned: run.warnings.length })),
    columns: [
      { key: "run", title: "run", show: (run) => el("a", { href: link("/payday/run", { run: run.run }) }, name(run.run)) },
      { key: "state", title: "state", show: (run) => stateTag(run.state) },
      { key: "period", title: "for", show: (run) => (run.period ? name(run.period) : "\u2014") },
      { key: "minor", title: "amount", number: true, show: (run) => run.amount },
      { key: "paid", title: "paid", number: true, show: (run) => `${many(run.paid)} of ${many(run.payees)}` },
      { key: "warned", title: "warnings", number: true, show: (run) => (run.warned ? el("span", { title: run.warnings.join(", ") }, many(run.warned)) : "none") },
      { key: "entered", title: "entered", show: (run) => moment(run.entered) },
    ],
    sort: state.value.sort,
    query: state.value.search,
    onstate: (chosen) => state.set(chosen),
  });

const EMPTY = [
  "No payday is on show yet. Begin one from a table of units with “New payday”; or name the folder of your runs when you start the explorer: ",
];

export async function show(main) {
  const state = urlState({ search: "", sort: "" });
  const wait = el("div");
  fill(main,
    el("div", { class: "payday-head" }, el("h1", {}, "Payday"), el("a", { class: "press", href: "/payday/new" }, "New payday")),
    el("p", { class: "soft" }, "From a table of submitted units to payments that can be defended: what was paid, why, and where it stands."),
    wait);
  let found;
  try {
    found = await ask("/api/payday/runs", { progress: wait });
  } catch (error) {
    fill(wait, problem(error));
    return;
  }
  const whole = found.runs.filter((run) => !run.broken);
  const broken = found.runs.filter((run) => run.broken);
  main.append(
    whole.length
      ? el("section", {}, el("h2", {}, "Runs"), runTable(whole, state))
      : el("p", { class: "note" }, EMPTY, el("code", {}, "datamarket explore RUNS/")));
  if (broken.length)
    main.append(el("section", {}, el("h2", {}, "Runs that cannot be read"),
      broken.map((run) => el("p", { class: "note bad" }, el("strong", {}, name(run.run)), ": ", seen(run.broken)))));
  if (found.books.length)
    main.append(el("section", {}, el("h2", {}, "Books"),
      el("p", { class: "soft" }, "What a market owes and has paid: entries that are only ever added."),
      el("ul", { class: "cards" }, found.books.map(bookCard))));
}
