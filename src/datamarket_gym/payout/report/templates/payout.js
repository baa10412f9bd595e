"use strict";
(() => {
  // Of many payments the first are shown; all of them where asked for, and on paper.
  const first = 25;
  const paid = [...document.querySelectorAll("#paid tbody tr")];
  const rest = document.querySelector(".rest");
  let all = paid.length <= first * 2;
  const fold = () => {
    paid.forEach((row, i) => row.classList.toggle("later", !all && i >= first));
    for (const row of paid) row.hidden = row.classList.contains("later");
    rest.hidden = all;
    rest.querySelector("span").textContent = `${first} of ${paid.length.toLocaleString("en")} rows are shown.`;
  };
  rest.querySelector("button").addEventListener("click", () => {
    all = true;
    fold();
  });
  fold();

  const find = document.getElementById("find");
  const rows = [...document.querySelectorAll("[data-find]")];
  const count = document.getElementById("found");
  find.addEventListener("input", () => {
    const wanted = find.value.trim().toLowerCase();
    let shown = 0;
    for (const row of rows) {
      row.hidden = wanted !== "" && !row.dataset.find.toLowerCase().includes(wanted);
      if (!row.hidden && row.tagName === "TR") shown += 1;
    }
    count.textContent = wanted === "" ? "" : `${shown} found`;
    if (wanted === "") fold();
    else rest.hidden = true;
  });

  // Warnings are printed open; other parts as they are on the screen.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll(".warnings details:not([open])")];
    for (const each of opened) each.open = true;
  });
  addEventListener("afterprint", () => {
    for (const each of opened) each.open = false;
  });
})();
