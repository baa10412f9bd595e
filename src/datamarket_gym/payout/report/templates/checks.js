"use strict";
(() => {
  const { key } = JSON.parse(document.getElementById("run").textContent);
  const boxes = [...document.querySelectorAll("fieldset[data-number]")];
  const payees = [...document.querySelectorAll("details.payee")];
  const by = document.getElementById("by");
  const count = document.getElementById("count");
  const answerOf = (box) => {
    const chosen = box.querySelector("input[type=radio]:checked");
    const who = box.querySelector(".who");
    return {
      outcome: chosen ? chosen.value : "",
      note: box.querySelector(".remark").value.trim(),
      by: who ? who.value.trim() : "",
    };
  };

  // Answers stay in this browser until they are saved; where it keeps nothing, the page says so.
  const stored = (() => {
    try {
      return JSON.parse(localStorage.getItem(key) || "{}");
    } catch {
      return null;
    }
  })();
  const kept = document.getElementById("kept");
  kept.textContent = stored
    ? "Answers stay in this browser until you save them as a file."
    : "This browser keeps nothing for this page: save the file before you close it.";
  const answers = new Map();
  if (stored && stored.answers) {
    by.value = String(stored.by || "");
    for (const box of boxes) {
      const old = stored.answers[box.dataset.number];
      if (!old) continue;
      const radio = [...box.querySelectorAll("input[type=radio]")].find((each) => each.value === old.outcome);
      if (radio) radio.checked = true;
      box.querySelector(".remark").value = String(old.note || "");
      const who = box.querySelector(".who");
      if (who) who.value = String(old.by || "");
    }
  }
  const take = (box) => {
    const answer = answerOf(box);
    box.classList.toggle("answered", answer.outcome !== "");
    if (answer.outcome === "" && answer.note === "" && answer.by === "") answers.delete(box.dataset.number);
    else answers.set(box.dataset.number, answer);
  };
  // Two looks at a unit by one person are one look.
  const compare = (card) => {
    const same = card.querySelector(".same");
    if (!same) return;
    const names = [...card.querySelectorAll("fieldset[data-number]")]
      .map(answerOf)
      .filter((answer) => answer.outcome === "genuine")
      .map((answer) => (answer.by || by.value).toLowerCase().replace(/\s+/g, ""));
    same.hidden = !names.includes("") && new Set(names).size === names.length;
  };
  const cards = [...document.querySelectorAll("article.check")];
  const told = (payee) => {
    const inside = [...payee.querySelectorAll("fieldset[data-number]")];
    const done = inside.filter((box) => box.classList.contains("answered")).length;
    const tag = payee.querySelector(".done");
    tag.textContent = `${done} of ${inside.length} answered`;
    tag.classList.toggle("all", done === inside.length);
  };
  const total = () => {
    const done = boxes.filter((box) => box.classList.contains("answered")).length;
    count.textContent = `${done} of ${boxes.length} answered`;
  };
  const keep = () => {
    try {
      localStorage.setItem(key, JSON.stringify({ by: by.value, answers: Object.fromEntries(answers) }));
    } catch {
      kept.textContent = "This browser keeps nothing for this page: save the file before you close it.";
    }
  };
  boxes.forEach(take);
  cards.forEach(compare);
  payees.forEach(told);
  total();
  addEventListener("input", (event) => {
    const box = event.target.closest("fieldset[data-number]");
    if (box) {
      take(box);
      compare(box.closest("article"));
      told(box.closest("details.payee"));
      total();
    }
    if (event.target === by) cards.forEach(compare);
    if (box || event.target === by) keep();
  });

  const find = document.getElementById("find");
  find.addEventListener("input", () => {
    const wanted = find.value.trim().toLowerCase();
    for (const payee of payees) {
      payee.hidden = wanted !== "" && !payee.dataset.find.toLowerCase().includes(wanted);
    }
  });
  document.getElementById("next").addEventListener("click", () => {
    const open = boxes.find((box) => !box.classList.contains("answered"));
    if (!open) return;
    find.value = "";
    for (const payee of payees) payee.hidden = false;
    open.closest("details.payee").open = true;
    open.closest("article").scrollIntoView({ block: "start" });
  });

  // As the product writes CSV: what a spreadsheet would take for a formula gets an apostrophe in front.
  const cell = (text) => {
    const within = text.replace(/;('*[=+\-@\t\uff1d\uff0b\uff0d\uff20])/g, ";'$1");
    const safe = /^[=+\-@\t\uff1d\uff0b\uff0d\uff20']/.test(within) ? `'${within}` : within;
    return /[",;\t\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  document.getElementById("save").addEventListener("click", () => {
    const rows = [["number", "outcome", "note", "by"]];
    for (const [number, answer] of answers) {
      if (answer.outcome !== "") rows.push([number, answer.outcome, answer.note, answer.by || by.value.trim()]);
    }
    if (rows.length === 1) {
      count.textContent = "Nothing is answered yet.";
      return;
    }
    const text = rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
    link.download = "outcomes.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  });
  addEventListener("beforeprint", () => {
    for (const payee of payees) payee.open = true;
  });
})();
