// One check after another: the unit large, its nearest others beside it, and a key for each answer.
import { upload, ask, latest, problem, send } from "../../lib/ask.js";
import { checkbox, field, button, copyButton, dialog } from "../../lib/controls.js";
import { content, el, fill, many, name } from "../../lib/dom.js";
import { keys } from "../../lib/keys.js";
import { doing } from "./parts.js";

const MANY = 50; // answers that are recorded without being asked: each recording is an entry of the ledger

/** The answers of a draw that wait; `record(answers)` sends them, and `done(answers, got)` is told once none of them waits. */
const waitingAnswers = (run, beacon, record, done) => {
  const prefix = `datamarket answer ${run} ${beacon} `;
  const keys = () => Object.keys(localStorage).filter((key) => key.startsWith(prefix));
  let sending = null;
  const waiting = {
    get(number) {
      const text = localStorage.getItem(prefix + number);
      return text ? JSON.parse(text) : null;
    },
    all: () => keys().map((key) => JSON.parse(localStorage.getItem(key))).sort((a, b) => a.number - b.number),
    put(answer) {
      localStorage.setItem(prefix + answer.number, JSON.stringify(answer));
      if (keys().length >= MANY) waiting.flush();
    },
    drop(number) {
      localStorage.removeItem(prefix + number);
    },
    /** Record all that wait; one sending at a time, and what was given meanwhile goes with the next. */
    async flush() {
      while (sending) await sending;
      const some = waiting.all();
      if (!some.length) return;
      sending = record(some).then((got) => {
        if (!got) return;
        for (const answer of some) {
          if (localStorage.getItem(prefix + answer.number) === JSON.stringify(answer)) waiting.drop(answer.number);
        }
        done(some, got);
      }).finally(() => (sending = null));
      await sending;
    },
  };
  return waiting;
};

const answerTable = (page) => {
  const file = el("input", { type: "file", name: "answers-file", accept: ".csv,.tsv,.parquet,.jsonl,.xlsx", on: { change: () => act.check() } });
  let correct = false;
  const act = doing({
    name: "record-table", label: "Record the table", kind: "quiet", page, ready: () => file.files.length > 0,
    work: async (under) => {
      const { id } = await upload(file.files[0]);
      const done = await page.post("record-table", { by: page.who.name, upload: id, correct }, { progress: under });
      await page.refresh({ done: [done.words] });
      return null;
    },
  });
  return el("details", {}, el("summary", {}, "Answers in a table"),
    field({ label: "Table", control: file, help: "Columns number (or unit), outcome (genuine, false, unanswered), note, by: as checks.html saves them. All are recorded, or none." }),
    checkbox({ name: "answers-correct", label: "Where they differ from earlier answers, they take their place", onchange: (yes) => (correct = yes) }),
    act);
};

const WORDS = { genuine: "genuine", false: "not genuine", unanswered: "to ask", "not made": "not made", answered: "answered" };
const MARKS = { genuine: "\u2713", false: "\u2717", unanswered: "?", "not made": "\u2013", answered: "\u2022" };
const CHIPS = 400; // so many checks are shown as a row of numbers

export const showReview = (place, page) => {
  const { found, state } = page;
  if (!found.drawn) return fill(place, el("h2", {}, "Check units"), el("p", {}, "Nothing is drawn yet: sample the units first."));
  if (!found.checks.length) return fill(place, el("h2", {}, "Check units"), found.drawn.words.map((words) => el("p", {}, words)), el("p", {}, "There is nothing new to check: go on to Settle."));
  const closed = found.state !== "draft";
  const checks = found.checks;
  const numbers = checks.map((each) => each.number);
  const undone = [];
  const refused = new Map();
  const units = new Map();
  let single = false;
  let at = Math.max(0, numbers.indexOf(state.value.number));

  const waiting = waitingAnswers(found.run, found.drawn.beacon, async (answers) => {
    tellKept("Recording the answers.");
    try {
      return await page.post("record", { by: page.who.name || answers[0].by, answers, single });
    } catch (error) {
      tellKept(`Not recorded yet, and kept in this browser: ${error.message}`);
      return null;
    }
  }, (answers, got) => {
    found.answers = got.answers;
    for (const answer of answers) {
      const why = got.refused[answer.number];
      if (why) refused.set(answer.number, { why, note: answer.note });
      else refused.delete(answer.number);
    }
    const out = Object.keys(got.refused).length;
    tellKept(`${many(got.new)} recorded in the run's folder and noted in its ledger${out ? `; ${many(out)} refused` : ""}.`);
    draw();
  });

  /** Why this person cannot make this check, as recording would refuse it: a unit is checked by different people. */
  const whyNotBy = (check, who, outcome) => {
    const plain = (text) => text.toLowerCase().replace(/\s/g, "");
    const same = (other) => plain(other) === plain(who);
    if (outcome !== "genuine" || single) return "";
    const other = checks.find((each) => each.unit === check.unit && each.number !== check.number && of(each.number)?.outcome === "genuine" && same(of(each.number).by));
    if (!other && !check.before.some(same)) return "";
    return `${who} checked this unit before (${other ? `check ${other.number}` : "in an earlier draft"}). Somebody else has to make this check, who does not know the first answer; say who under “You are”. Or open “Nobody else can check”.`;
  };

  const of = (number) => waiting.get(number) || found.answers[number] || null;
  const progress = el("strong", { role: "status" });
  const kept = el("span", { class: "soft", role: "status" });
  const tellKept = (words) => (kept.textContent = words);
  const chips = el("div", { class: "chips", role: "group", "aria-label": "All checks" });
  const card = el("article", { class: "looking" });
  const unit = el("div", { class: "unit" });
  const loading = el("div");
  const others = el("div");
  const note = el("textarea", { name: "note", rows: 2, maxlength: 2000, placeholder: "what was found, what was sent, whom you asked" });

  const count = () => {
    const given = numbers.map(of);
    const told = given.filter((each) => each && each.outcome !== "unanswered").length;
    const asking = given.filter((each) => each && each.outcome === "unanswered").length;
    progress.textContent = `${told} of ${numbers.length}, ${asking} to ask`;
  };
  const drawChips = () => {
    if (numbers.length > CHIPS) return;
    fill(chips, numbers.map((number, i) => {
      const answer = of(number);
      const words = refused.has(number) ? "refused" : answer ? WORDS[answer.outcome] : "no answer yet";
      return el("button", { type: "button", class: `chip ${refused.has(number) ? "refused" : answer ? answer.outcome.replace(" ", "-") : ""}`, "aria-current": i === at ? "true" : null, "aria-label": `check ${number}, ${words}`, name: `check-${number}`, on: { click: () => go(i) } }, refused.has(number) ? "!" : answer ? MARKS[answer.outcome] : number);
    }));
  };

  const fetchUnit = (number, progress = null) => {
    if (!units.has(number)) {
      const asking = ask(`/api/payout/checks/unit?run=${encodeURIComponent(page.run)}&number=${number}`, { progress });
      asking.catch(() => units.delete(number));
      units.set(number, asking);
      if (units.size > 40) units.delete(units.keys().next().value);
    }
    return units.get(number);
  };
  const showUnit = latest(async (signal, number) => fetchUnit(number, loading));

  const reason = (check) =>
    `Drawn at random, each unit as likely as the part it earns: this one earns ${check.amount}, ${check.share} of what its payee earns.`;

  const draw = () => {
    const check = checks[at];
    const answer = of(check.number);
    count();
    drawChips();
    const elsewhere = [...refused.keys()].filter((number) => number !== check.number);
    fill(others, elsewhere.length ? el("p", { class: "note bad", role: "alert" }, "Not recorded, and not counted: ", elsewhere.map((number) => [button({ name: `refused-${number}`, label: `check ${number}`, kind: "quiet", onclick: () => go(numbers.indexOf(number)) }), " "])) : null);
    fill(card,
      el("h2", {}, `Check ${check.number}: `, name(check.unit)),
      el("p", {}, "Payee ", el("strong", {}, name(check.payee)), check.identity ? [", handed in as ", name(check.identity)] : null, ". ", el("span", { class: "soft" }, reason(check))),
      check.times > 1 ? el("p", { class: "note" }, `Check ${check.nth} of ${check.times} of this unit, each by somebody else, who does not know what the others found.`) : null,
      check.before.length ? el("p", { class: "note" }, "Checked in an earlier draft by ", check.before.map((who, i) => [i ? ", " : "", name(who)]), ": somebody else has to check it now.") : null,
      refused.has(check.number) ? el("p", { class: "note bad", role: "alert" }, `Not recorded: ${refused.get(check.number).why}`) : null,
      el("p", { class: "given", "aria-live": "polite" }, answer
        ? [el("span", { class: `tag ${answer.outcome === "genuine" ? "good" : answer.outcome === "false" ? "bad" : ""}`, dataset: { outcome: answer.outcome } }, WORDS[answer.outcome]), answer.by ? [" by ", name(answer.by)] : null, answer.secret ? "; what was found is not told to whoever checks it next" : null, waiting.get(check.number) ? el("span", { class: "soft" }, ", not recorded yet") : null]
        : "No answer yet."));
  };

  const open = async () => {
    const number = numbers[at];
    draw();
    const answer = of(number);
    note.value = answer?.note || refused.get(number)?.note || "";
    unit.classList.add("stale");
    try {
      const got = await showUnit(number);
      if (!got || numbers[at] !== number) return;
      fill(unit, el("div", { class: "sides" },
        el("section", { class: "this" }, el("h3", {}, "This unit ", got.content.label ? el("span", { class: "tag" }, "label ", name(got.content.label)) : null), content(got.content)),
        el("section", { class: "others" }, got.sides.map((side) => [el("h3", {}, side.title),
          side.others.length ? side.others.map((other) => el("div", { class: "near" }, el("p", {}, el("strong", {}, `cosine ${other.cosine}`), " ", name(other.unit), " of ", name(other.identity), other.label ? [" ", el("span", { class: "tag" }, "label ", name(other.label))] : null), content(other))) : el("p", { class: "soft" }, "Nobody else handed in anything earlier.")]))));
      letter.onclick = () => dialog("What to write to this payee", el("pre", { dir: "auto" }, got.letter), copyButton("Copy", () => got.letter, "copy-letter"));
      letter.disabled = false;
      unit.classList.remove("stale");
      if (at + 1 < numbers.length) fetchUnit(numbers[at + 1]).catch(() => {});
    } catch (error) {
      unit.classList.remove("stale");
      fill(unit, problem(error));
    }
  };

  const go = (to) => {
    if (to < 0 || to >= numbers.length) return;
    keepNote();
    at = to;
    state.set({ number: numbers[at] }, { quiet: true });
    open();
  };
  page.onnumber = (number) => {
    const to = numbers.indexOf(number);
    if (to >= 0 && to !== at) {
      at = to;
      open();
    }
  };

  page.onfound = (now) => {
    found.answers = now.answers;
    draw();
  };

  const give = (number, outcome, words) => {
    refused.delete(number);
    const recorded = found.answers[number] || null;
    const seen = recorded ? { outcome: recorded.outcome, note: recorded.note, by: recorded.by } : null;
    waiting.put({ number, outcome, note: words, by: page.who.name, seen });
    tellKept(`${many(waiting.all().length)} kept in this browser until they are recorded.`);
  };
  const answer = (outcome) => {
    if (closed || !page.who.named()) return;
    const number = numbers[at];
    const why = whyNotBy(checks[at], page.who.name, outcome);
    if (why) {
      refused.set(number, { why, note: note.value.trim() });
      return draw();
    }
    undone.push({ number, before: of(number) });
    give(number, outcome, note.value.trim());
    if (numbers.every(of)) waiting.flush(); // the last one
    if (at + 1 < numbers.length) go(at + 1);
    else draw();
  };
  const keepNote = () => {
    const number = numbers[at];
    const known = of(number);
    if (closed || !known || known.secret || known.note === note.value.trim() || !page.who.name) return;
    give(number, known.outcome, note.value.trim());
  };
  const undo = () => {
    const last = undone.pop();
    if (!last) return tellKept("There is nothing to undo.");
    const { number, before } = last;
    const recorded = found.answers[number] || null;
    if (!recorded && !before) waiting.drop(number);
    else if (recorded && before && recorded.outcome === before.outcome && recorded.note === before.note) waiting.drop(number);
    else give(number, before ? before.outcome : "unanswered", before ? before.note : "");
    tellKept(`The answer to check ${number} was taken back${recorded ? "; it stays in the history" : ""}.`);
    at = numbers.indexOf(number);
    state.set({ number }, { quiet: true });
    open();
  };
  const next = () => {
    const later = [...numbers.keys()].map((i) => (at + 1 + i) % numbers.length).find((i) => !of(numbers[i]));
    later === undefined ? tellKept("Every check has an answer.") : go(later);
  };

  note.addEventListener("change", keepNote);
  note.addEventListener("keydown", (event) => {
    if (event.key === "Escape" || (event.key === "Enter" && !event.shiftKey)) {
      event.preventDefault();
      note.blur();
    }
  });
  const remove = keys({
    g: ["genuine: the proof is there, and the unit is what it is said to be", () => answer("genuine")],
    n: ["not genuine: a copy, made from somebody else's, or made up", () => answer("false")],
    a: ["ask: nothing came back yet", () => answer("unanswered")],
    j: ["next check", () => go(at + 1)],
    k: ["previous check", () => go(at - 1)],
    ArrowRight: ["next check", () => go(at + 1)],
    ArrowLeft: ["previous check", () => go(at - 1)],
    x: ["next without an answer", next],
    u: ["undo the last answer", undo],
    e: ["write a note (Escape comes back)", () => note.focus()],
  });
  const letter = button({ name: "letter", label: "Letter to the payee", onclick: () => {}, kind: "quiet" });
  letter.disabled = true;
  const press = (key, label, kind, f) => button({ name: `answer-${kind}`, label, key, onclick: f, kind });
  fill(place,
    el("div", { class: "tools" }, progress, kept, button({ name: "record", label: "Record now", kind: "quiet", onclick: () => waiting.flush() })),
    others,
    chips,
    closed ? el("p", { class: "note" }, "These checks are settled; answers cannot change any more.") : null,
    card,
    loading,
    unit,
    closed ? null : field({ label: "Note", control: note, help: "Kept with the answer (e to write, Escape to come back)." }),
    el("div", { class: "tools answers" },
      closed ? null : [press("g", "Genuine", "genuine", () => answer("genuine")), press("n", "Not genuine", "false", () => answer("false")), press("a", "Ask", "unanswered", () => answer("unanswered")), button({ name: "undo", label: "Undo", key: "u", kind: "quiet", onclick: undo })],
      button({ name: "previous", label: "Previous", key: "k", kind: "quiet", onclick: () => go(at - 1) }), button({ name: "next", label: "Next", key: "j", kind: "quiet", onclick: () => go(at + 1) }), button({ name: "open-next", label: "Next without an answer", key: "x", kind: "quiet", onclick: next }), letter),
    closed ? null : el("details", {}, el("summary", {}, "Nobody else can check"), el("p", {}, "A unit that was drawn twice is checked by two people. Where nobody else can check it, the second check is noted as not made: the certificate says so, and leaves more to gain."),
      checkbox({ name: "single-check", label: "One check of each unit is all there is", onchange: (yes) => (single = yes) })),
    closed ? null : answerTable(page));
  open();
  waiting.flush();
  const leaving = () => {
    const some = waiting.all();
    if (some.length && page.who.name) send("/api/payout/checks/record", { method: "POST", keepalive: true, body: JSON.stringify({ run: page.run, by: page.who.name, answers: some, single }) }).catch(() => {});
  };
  addEventListener("pagehide", leaving);
  return () => {
    remove();
    removeEventListener("pagehide", leaving);
    page.onnumber = page.onfound = null;
    waiting.flush();
  };
};
