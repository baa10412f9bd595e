// Pays identities for the validation rows whose nearest units are theirs, in equal parts, and have the right label.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

function table(path) { // RFC 4180: fields may be quoted and hold commas, quotes and line ends
  const rows = [[""]];
  const text = readFileSync(path, "utf8");
  for (let i = 0, quoted = false; i < text.length; i++) {
    const row = rows.at(-1), sign = text[i];
    if (quoted) {
      if (sign !== '"') row[row.length - 1] += sign;
      else if (text[i + 1] === '"') row[row.length - 1] += text[++i];
      else quoted = false;
    } else if (sign === '"') quoted = true;
    else if (sign === ",") row.push("");
    else if (sign === "\n") rows.push([""]);
    else if (sign !== "\r") row[row.length - 1] += sign;
  }
  return rows.slice(1, -1); // without the header, and without what follows the last line end
}

const [given, taken] = process.argv.slice(2);
const units = table(join(given, "units.csv")).map(([, identity, , label, ...x]) =>
  ({ identity, label, x: x.map(Number) }));
const held = table(join(given, "validation.csv")).map(([label, ...x]) => ({ label, x: x.map(Number) }));
const paid = new Map(units.map((unit) => [unit.identity, 0]));
for (const row of held) {
  const distance = units.map((unit) => unit.x.reduce((sum, value, i) => sum + (value - row.x[i]) ** 2, 0));
  const least = Math.min(...distance);
  const nearest = units.filter((_, i) => distance[i] === least); // not the first: the order of rows decides nothing
  for (const { identity, label } of nearest)
    if (label === row.label) paid.set(identity, paid.get(identity) + 1 / held.length / nearest.length);
}
const quoted = (name) => `"${name.replaceAll('"', '""')}"`;
const lines = [...paid].map(([name, amount]) => `${quoted(name)},${amount}\r\n`);
writeFileSync(join(taken, "payments.csv"), "identity,amount\r\n" + lines.join(""));
