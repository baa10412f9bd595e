// How components are written, as in the library: name, name@value, name(parameter=value, ...).

/** {name, parameters} of a written form; parameters by the names that the choice gives them. */
export function read(text, choices) {
  const [, name, single, several] = /^\s*([\w.-]+)\s*(?:@\s*([^]+?)|\(([^]*)\))?\s*$/.exec(text) ?? [null, text];
  const known = choices.find((choice) => choice.name === name)?.parameters ?? [];
  const parameters = {};
  if (single !== undefined && known.length) parameters[known[0].name] = value(single);
  for (const item of items(several ?? "")) {
    const equals = item.indexOf("=");
    if (equals > 0) parameters[item.slice(0, equals).trim()] = value(item.slice(equals + 1).trim());
  }
  return { name, parameters };
}

/**
 * The written form of a choice with these parameters: what is as by default is left out. Parameters are named: which
 * is the first, that name@value means, cannot be known here, where some are not offered.
 */
export function write(choice, parameters) {
  const given = choice.parameters.filter(({ name, default: usual }) => (parameters[name] ?? usual) !== usual);
  if (!given.length) return choice.name;
  return `${choice.name}(${given.map(({ name, kind }) => `${name}=${text(parameters[name], kind)}`).join(", ")})`;
}

/** A written form as `write` has it, so that two can be compared. */
export function canonical(form, choices) {
  const { name, parameters } = read(form, choices);
  const choice = choices.find((each) => each.name === name);
  return choice ? write(choice, parameters) : form;
}

/** Every parameter's value: as given, else as by default. */
export function whole(choice, parameters) {
  return Object.fromEntries(choice.parameters.map(({ name, default: usual }) => [name, parameters[name] ?? usual]));
}

// The text between commas that stand outside quotes and brackets.
function items(inner) {
  const parts = [""];
  let depth = 0;
  let quote = "";
  for (let at = 0; at < inner.length; at++) {
    const sign = inner[at];
    if (quote && sign === "\\") parts[parts.length - 1] += inner[at++];
    else if (quote && sign === quote) quote = "";
    else if (!quote && (sign === "'" || sign === '"')) quote = sign;
    else if (!quote && "([{".includes(sign)) depth += 1;
    else if (!quote && ")]}".includes(sign)) depth -= 1;
    if (sign === "," && !quote && depth === 0) parts.push("");
    else parts[parts.length - 1] += inner[at] ?? "";
  }
  return parts.map((part) => part.trim()).filter(Boolean);
}

function value(written) {
  if (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(written)) return Number(written);
  if (/^(true|false)$/i.test(written)) return written.toLowerCase() === "true";
  const quoted = /^(['"])([^]*)\1$/.exec(written);
  return quoted ? quoted[2].replace(/\\(.)/g, "$1") : written;
}

function text(value, kind) {
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number") return kind === "float" && Number.isInteger(value) ? value.toFixed(1) : String(value);
  return /^[\w.+;:-]+$/.test(value) && !/^[\d.+-]/.test(value) ? value : `'${value.replace(/[\\']/g, "\\$&")}'`;
}
