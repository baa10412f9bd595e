// Paying: the file for the bank, that it was paid, and a page for each payee.
import { upload } from "../../lib/ask.js";
import { checkbox, field, select, textbox } from "../../lib/controls.js";
import { el, fill, many, name } from "../../lib/dom.js";
import { download } from "../../lib/files.js";
import { link } from "../../lib/url.js";
import { doing, good, tokenField } from "./parts.js";

/** The form of an export; `send(asked, token, progress)` asks for it. */
export const exportForm = (page, send) => {
  const form = select({ name: "export-form", value: "pain.001", options: [{ value: "pain.001", label: "pain.001 (ISO 20022 XML)" }, { value: "csv", label: "CSV: payees and amounts" }], onchange: () => shape() });
  const file = el("input", { type: "file", name: "accounts", accept: ".csv,.parquet,.jsonl,.xlsx" });
  const text = Object.fromEntries([["name", "payer-name"], ["account", "payer-account"], ["bic", "payer-bic"], ["country", "payer-country"], ["town", "payer-town"]].map(([key, as]) => [key, textbox({ name: as })]));
  const on = el("input", { type: "date", name: "pay-on" });
  const token = tokenField("export-token");
  const message = el("div", {},
    field({ label: "Account holder who pays", control: text.name }),
    field({ label: "IBAN that is paid from", control: text.account, help: "Or a number, with the BIC of its bank." }),
    el("details", {}, el("summary", {}, "BIC, country, town"), field({ label: "BIC", control: text.bic }), field({ label: "Country (two letters)", control: text.country }), field({ label: "Town", control: text.town })));
  const shape = () => (message.hidden = form.value === "csv");
  const act = doing({
    name: "export", label: "Order, and save the file", page, token,
    work: async (under, typed) => {
      const accounts = file.files.length ? (await upload(file.files[0])).id : "";
      const said = form.value === "csv" ? {} : Object.fromEntries(Object.entries(text).map(([key, input]) => [key, input.value.trim()]));
      const done = await send({ form: form.value, accounts, ...said, on: on.value || null }, typed, under);
      download(done.file, done.text, done.file.endsWith(".xml") ? "application/xml" : "text/csv");
      return el("div", {}, done.doubts.map((doubt) => el("p", { class: "note" }, `${doubt}.`)),
        done.respelled.length ? el("details", {}, el("summary", {}, `${done.respelled.length} names are written in the letters that every bank takes`), el("ul", {}, done.respelled.slice(0, 50).map(([given, written]) => el("li", {}, name(given), ` \u2192 ${written}`)))) : null,
        good(`${done.file}: ${many(done.payments)} payments, ${done.amount}, batch ${done.batch}${done.again ? ", ordered before and not confirmed: the same file again" : ""}.`));
    },
  });
  shape();
  return el("div", {}, field({ label: "Format", control: form }),
    field({ label: "Accounts of the payees", control: file, help: "A table with payee, name, iban (or account with bic). CSV can do without." }),
    message, field({ label: "Day of payment", control: on, help: "The day of the order if left out." }), token.node, act);
};

const statements = (page) => {
  const payee = textbox({ name: "statement-payee", placeholder: "all, as a ZIP file" });
  const contact = textbox({ name: "contact", placeholder: "write to payments@example.org within 30 days" });
  let shown = false;
  const get = el("a", { download: "", name: "statements" }, "Save the statements");
  const point = () => get.setAttribute("href", link("/api/payout/statements", { run: page.run, payee: payee.value, show_names: shown ? "true" : "", contact: contact.value.trim() }));
  for (const input of [payee, contact]) input.addEventListener("input", point);
  point();
  return el("div", {}, el("p", {}, "A page for each payee, in plain words: what was sent, what was merged with whom and why, what is paid. Each is for its payee alone."),
    field({ label: "Payee", control: payee, help: "One payee's page alone, by the whole name." }),
    field({ label: "If one disagrees", control: contact, help: "Whom to write to, and by when." }),
    checkbox({ name: "show_names", label: "Show the names of other payees and of their units, instead of A, B, ...", onchange: (yes) => {
      shown = yes;
      point();
    } }),
    el("p", {}, get));
};

export const showPay = (place, page) => {
  const { found } = page;
  const { payment } = found;
  const parts = [el("h2", {}, "Pay")];
  if (found.state === "paid") parts.push(el("p", { class: "note good" }, "Paid, under the reference ", name(payment.reference), "."));
  else if (found.state !== "approved") parts.push(el("p", { class: "note" }, "Nothing is owed by this run before it is approved."));
  if (found.state === "approved") {
    parts.push(payment.batch
      ? el("p", {}, `Ordered, and not confirmed: batch ${payment.batch.id}, ${found.currency} ${payment.batch.amount} to ${many(payment.batch.payees)} payees${payment.batch.runs > 1 ? `, with those of ${payment.batch.runs - 1} other runs` : ""}. If the bank will not send it, cancel it on `
        , found.ledger ? el("a", { href: link("/payout/ledger", { ledger: found.ledger, tab: "batches" }) }, "the page of the ledger") : "the page of the ledger", ".")
      : el("p", {}, `${found.currency} ${payment.now.amount} to ${many(payment.now.payees)} payees can be sent now; who is held, or owed too little, waits.`));
    parts.push(el("div", { class: "card" }, el("h3", {}, "File for the bank"),
      el("p", {}, "Orders what this run owes, once, and saves it as a file. Asked again, it is the same file, until it is confirmed or cancelled."),
      exportForm(page, (asked, token, progress) => page.pay("export", { token, export: asked }, { progress }))));
    const reference = textbox({ name: "reference", placeholder: "transfer 2026-06-30/7" });
    const token = tokenField("paid-token");
    const act = doing({
      name: "paid", label: "Mark as paid", page, token, inputs: [reference], ready: () => reference.value.trim() !== "",
      work: async (under, typed) => {
        const done = await page.pay("paid", { reference: reference.value.trim(), token: typed }, { progress: under });
        await page.refresh({ step: "", done: [done.words] });
        return null;
      },
    });
    parts.push(el("div", { class: "card" }, el("h3", {}, "Mark as paid"),
      el("p", {}, "When the bank has sent it: what was ordered is entered as sent, and the run is paid. A second time with the same reference does nothing; with another it is refused."),
      field({ label: "Reference", control: reference, help: "What the payment is known by, such as a transfer number." }), token.node, act));
  }
  parts.push(el("div", { class: "card" }, el("h3", {}, "Statements"), statements(page)));
  fill(place, parts);
};
