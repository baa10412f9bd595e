// What a column can be, which setting says so, and what becomes of the settings when it is chosen.

const ROLES = [
  { role: "id", key: "columns.id", label: "Id of the unit", tag: "id" },
  { role: "identity", key: "columns.identity", label: "Identity: who submitted it", tag: "identity" },
  { role: "label", key: "columns.label", label: "Label", tag: "label", held: true },
  { role: "features", key: "columns.features", label: "Features", tag: "features", held: true, several: true },
  { role: "embedding", key: "columns.embedding", label: "Embedding, for similarity", tag: "embedding", held: true, several: true },
  { role: "time", key: "columns.time", label: "Time of receipt", tag: "time" },
  { role: "text", key: "columns.text", label: "Text, to be embedded", tag: "text", held: true },
  { role: "trusted_source", key: "columns.trusted_source", label: "Trusted source", tag: "source" },
  { role: "metadata", key: "columns.metadata", label: "Metadata: units that agree in it are matched", tag: "metadata" },
  { role: "link", key: "linkage.keys", label: "Link: equal values are claims of who is who", tag: "link", list: true },
  { role: "confirm", key: "linkage.confirm", label: "Confirms other identities", tag: "confirms" },
];

/** The role of that name. */
export const link = (role) => ROLES.find((each) => each.role === role) || { role, tag: role, label: role };

/** The roles that a column of a table can have. */
export const rolesFor = (table) => (table === "submissions" ? ROLES : ROLES.filter((each) => each.held));

const parts = (text) => (text || "").split(",").map((part) => part.trim()).filter(Boolean);

/** Whether a column has a role by its name alone, so that only another column can take it away. */
export const byName = (role, set) => role.key !== "columns.label" && (role.list ? false : set[role.key] === undefined);

/** The change of settings by which a column gets a role, or loses one that it has. */
export const given = (role, column, has, set, columns) => {
  const { key } = role;
  if (role.list) {
    const now = set[key] || [];
    const next = has ? now.filter((each) => each !== column.name) : [...now, column.name];
    return { [key]: next.length ? next : undefined };
  }
  if (role.several) {
    const single = (wanted) => columns.some((each) => each.name === wanted && each.columns === 1 && !each.kind.startsWith("list"));
    const now = parts(set[key]);
    if (has) {
      const left = set[key] === column.name ? [] : now.filter((each) => each !== column.name);
      return { [key]: left.length ? left.join(",") : undefined };
    }
    const joins = single(column.name) && now.length && now.every(single);
    return { [key]: joins ? [...now, column.name].join(",") : column.name };
  }
  if (has) return { [key]: key === "columns.label" ? "" : undefined };
  return { [key]: column.name };
};
