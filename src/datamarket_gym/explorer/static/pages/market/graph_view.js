// The graph of an answer as the drawing wants it: who is behind each name, one record a unit, reasons in words.

const REASONS = {
  exact_hash: "identical content",
  cosine: "cosine similarity",
  "cosine, spanning": "cosine similarity (those that hold a cluster together)",
  lineage: "nearest earlier unit",
  pool: "one pool for all",
  perceptual: "the image's hash",
  minhash: "shared word sequences",
  oracle_latent: "the same owner (oracle)",
  oracle_source: "the same source (oracle)",
  false_merge: "an error of the oracle",
  "both confirm": "both confirm it",
};

/** {identities, units, edges, reasons, edges_in_all, clusters, note} of an answer of /api/market/answer. */
export function graphOf(answer) {
  const { graph, market } = answer;
  const behind = new Map(answer.schemes[1].identities.map((row) => [row.identity, row]));
  const identities = graph.identities.map((name) => {
    const row = behind.get(name);
    return { name, provider: row.provider, attacker: row.attacker && market.attack !== "honest", pseudonym: row.pseudonym };
  });
  const { units: u, edges: e } = graph;
  const units = u.id.map((id, row) => ({
    id,
    identity: u.identity[row],
    owner: graph.providers[u.owner[row]],
    cluster: u.cluster[row],
    canonical: u.canonical[row],
    copyOf: u.copy_of[row],
    genuine: u.genuine[row],
  }));
  const edges = e.left.map((left, at) => ({ left, right: e.right[at], reason: e.reason[at], score: e.score[at] }));
  const reasons = graph.reasons.map(({ name, edges: count }) => ({ words: REASONS[name] ?? name.replaceAll("_", " "), count }));
  return { identities, units, edges, reasons, edges_in_all: graph.edges_in_all, clusters: graph.clusters, note: graph.note };
}
