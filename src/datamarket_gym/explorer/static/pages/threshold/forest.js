// What merges at a threshold, from the forest of all similarities: no question to the server, whatever theta.

/** The forest of some rows: matches by similarity, the strongest first, and each row's owner and class (numbers). */
export class Forest {
  constructor({ rows, left, right, score, owner = null, label = null }) {
    Object.assign(this, { rows, left, right, score, owner, label });
  }

  /** How many matches there are at theta: those of at least as much. */
  merged(theta) {
    let low = 0;
    let high = this.score.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.score[middle] >= theta) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The first row of each row's component. */
  components(theta) {
    const parent = Int32Array.from({ length: this.rows }, (_, row) => row);
    const root = (row) => {
      while (parent[row] !== row) row = parent[row] = parent[parent[row]];
      return row;
    };
    const matches = this.merged(theta);
    for (let at = 0; at < matches; at += 1) {
      const [a, b] = [root(this.left[at]), root(this.right[at])];
      parent[Math.max(a, b)] = Math.min(a, b);
    }
    for (let row = 0; row < this.rows; row += 1) parent[row] = root(row);
    return parent;
  }

  /** Components at theta: how many, the largest, those that mix owners or classes (null: unknown), and sizes. */
  at(theta) {
    const first = this.components(theta);
    const size = new Int32Array(this.rows);
    for (const each of first) size[each] += 1;
    const sizes = new Map();
    let largest = 0;
    let components = 0;
    for (const each of size) {
      if (!each) continue;
      components += 1;
      largest = Math.max(largest, each);
      sizes.set(each, (sizes.get(each) || 0) + 1);
    }
    return { components, largest, sizes, owners: mixed(first, this.owner), classes: mixed(first, this.label) };
  }

  /** The match that is the n-th just above theta (n > 0), or just below (n < 0); null where there is none. */
  near(theta, n) {
    const at = this.merged(theta) - (n > 0 ? n : n + 1);
    if (at < 0 || at >= this.score.length) return null;
    return { left: this.left[at], right: this.right[at], score: this.score[at] };
  }
}

const mixed = (first, code) => {
  if (!code) return null;
  const many = new Set();
  for (let row = 0; row < first.length; row += 1) if (code[row] !== code[first[row]]) many.add(first[row]);
  return many.size;
};
