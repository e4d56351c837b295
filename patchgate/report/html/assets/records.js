// The data of the page: each value once. A row of the pool refers to those before it by number.

const data = JSON.parse(byId("data").textContent);
const pool = [];
for (const row of data.pool) pool.push(Array.isArray(row) ? unpacked(row) : row);

// Of a list -1 and its values, of a mapping the number of its keys and its values.
function unpacked([shape, ...numbers]) {
  const values = numbers.map((number) => pool[number]);
  return shape < 0 ? values : Object.fromEntries(data.shapes[shape].map((name, at) => [name, values[at]]));
}

const PATCHES = pool[data.patches];
const CASES = [...new Set(PATCHES.flatMap(({ lines }) => lines.flatMap(({ cells }) => cells.flatMap((cell) => (cell ? cell.cases : [])))))];

// What several cells say together: the worst colour, and how often it was found.
const WORST_FIRST = [1, 2, 0];
function together(cells) {
  const there = cells.filter(Boolean);
  const colour = WORST_FIRST.find((one) => there.some((cell) => cell.colour === one));
  if (colour === undefined) return null;
  const worst = there.filter((cell) => cell.colour === colour);
  const codes = [...new Set(worst.flatMap((cell) => cell.codes))].sort();
  return { colour, count: worst.reduce((sum, cell) => sum + cell.count, 0), codes };
}

// The tree of the matrix: patch (when there are several) > check > item.
function node(label, path, level, cells, children) {
  const worst = Math.min(3, ...cells.filter(Boolean).map((cell) => WORST_FIRST.indexOf(cell.colour)));
  return { label, path, level, cells, children, worst };
}

function tree() {
  const deep = PATCHES.length > 1 ? 1 : 0;
  const patches = PATCHES.map(({ id, lines }) => {
    const checks = new Map();
    for (const { check, item, cells } of lines) {
      const leaf = node(item, [id, check, item], deep + 2, cells, []);
      if (!checks.has(check)) checks.set(check, []);
      checks.get(check).push(leaf);
    }
    const nodes = [...checks].map(([check, leaves]) => {
      leaves.sort((a, b) => a.worst - b.worst); // stable: reading order within a colour
      return node(check, [id, check], deep + 1, columns(leaves), leaves);
    });
    return node(id, [id], 1, columns(nodes), nodes);
  });
  return deep ? patches.sort((a, b) => a.worst - b.worst) : patches.flatMap((patch) => patch.children);
}

function columns(nodes) {
  return data.torches.map((_, at) => together(nodes.map((one) => one.cells[at])));
}
const ROOTS = tree();
const leavesOf = (one) => (one.children.length ? one.children.flatMap(leavesOf) : [one]);
const LEAVES = ROOTS.flatMap(leavesOf);
