"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = "11px sans-serif";
  // A label of at most two lines, for narrow screens: letters differ in width, so it is measured.
  const cut = (text) => {
    const wide = (length) => pen.measureText(text.slice(0, length)).width > 96;
    if (!wide(text.length)) return text;
    let length = text.length;
    while (length > 1 && wide(length)) length -= 1;
    return `${text.slice(0, length - 1)}\u2026`;
  };
  const folded = (text) => {
    const space = text.lastIndexOf(" ", 16);
    return text.length > 16 && space > 0 ? `${cut(text.slice(0, space))}<br>${cut(text.slice(space + 1))}` : cut(text);
  };
  const draw = (paper) => {
    // On paper the colours are those of paper, whatever the screen has.
    const style = getComputedStyle(paper ? document.querySelector(".paper") : document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    for (const [id, chart] of Object.entries(charts)) {
      const place = document.getElementById(id);
      if (!place) continue;
      const narrow = !paper && place.clientWidth < 520;
      const data = JSON.parse(JSON.stringify(chart.data), (key, value) =>
        typeof value === "string" && value.startsWith("--") ? color(value) : value);
      const axis = { gridcolor: color("--line"), zerolinecolor: color("--line"), linecolor: color("--line") };
      const given = JSON.parse(JSON.stringify(chart.layout), (key, value) =>
        typeof value === "string" && value.startsWith("--") ? color(value) : value);
      const layout = {
        ...given,
        width: paper ? 660 : undefined,
        autosize: true,
        paper_bgcolor: "rgba(0,0,0,0)",
        plot_bgcolor: "rgba(0,0,0,0)",
        font: { family: "inherit", size: paper || narrow ? 11 : 13, color: color("--ink") },
        height: paper ? 70 + (given.height - 70) * 0.7 : given.height,
      };
      for (const name of ["xaxis", "xaxis2", "yaxis"]) {
        if (given[name] || name !== "xaxis2") layout[name] = { ...axis, ...(given[name] || {}), fixedrange: true };
      }
      for (const name of narrow ? ["xaxis", "xaxis2"] : []) {
        if (layout[name]) layout[name] = { ...layout[name], nticks: 3, tickangle: 0 };
      }
      if (narrow && layout.yaxis.ticktext) layout.yaxis.ticktext = layout.yaxis.ticktext.map(folded);
      Plotly.react(place, data, layout, { displayModeBar: false, responsive: !paper });
    }
  };
  if (typeof Plotly !== "undefined") {
    draw(false);
    dark.addEventListener("change", () => draw(false));
    addEventListener("beforeprint", () => draw(true));
    addEventListener("afterprint", () => draw(false));
  }

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

  // What a word means, beside it: on hover, on focus, and on the first tap; the link itself leads to the glossary.
  const tip = document.getElementById("tip");
  let told = null;
  const hush = () => {
    if (told) told.removeAttribute("aria-describedby");
    told = null;
    tip.hidden = true;
  };
  const place = () => {
    const at = told.getBoundingClientRect();
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(at.left, innerWidth - box.width - 8))}px`;
    tip.style.top = `${at.bottom + box.height + 8 < innerHeight ? at.bottom + 6 : Math.max(4, at.top - box.height - 6)}px`;
  };
  const tell = (link) => {
    const entry = document.getElementById(link.hash.slice(1));
    if (!entry) return;
    hush();
    told = link;
    tip.textContent = entry.querySelector("dd").textContent;
    tip.hidden = false;
    link.setAttribute("aria-describedby", "tip");
    place();
  };
  const linkOf = (event) => (event.target.closest ? event.target.closest("a.term") : null);
  let tapped = null;
  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "mouse" && linkOf(event)) tell(linkOf(event));
  });
  document.addEventListener("pointerout", (event) => {
    if (event.pointerType === "mouse" && linkOf(event)) hush();
  });
  document.addEventListener("pointerdown", (event) => {
    tapped = event.pointerType === "mouse" || linkOf(event) === told ? null : linkOf(event);
    if (!linkOf(event)) hush();
  });
  document.addEventListener("focusin", (event) => (linkOf(event) ? tell(linkOf(event)) : hush()));
  document.addEventListener("focusout", (event) => linkOf(event) && hush());
  document.addEventListener("click", (event) => {
    const link = linkOf(event);
    if (!link) return;
    if (link === tapped) {
      event.preventDefault();
      tell(link);
    } else hush();
    tapped = null;
  });
  addEventListener("keydown", (event) => event.key === "Escape" && hush());
  // A link that is reached by keyboard scrolls into view: its explanation goes with it.
  addEventListener("scroll", () => (told && told === document.activeElement ? place() : hush()), { passive: true });

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
