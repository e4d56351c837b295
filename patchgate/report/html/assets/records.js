// The data of the page as records: rows of its tables are put together here, when they are asked for.

const data = JSON.parse(byId("data").textContent);
const rowsOf = (table) => (data[table] ? data[table].rows.map((_, at) => record(table, at)) : []);

// A row of a table, by the names of its columns.
function record(table, number) {
  const { fields, rows } = data[table];
  const made = {};
  for (let at = 0; at < fields.length; at++) made[fields[at]] = rows[number][at];
  return made;
}

const value = (number) => record("values", number).value;
const withValues = (row) => Object.fromEntries(Object.entries(row).map(([name, number]) => [name, value(number)]));
const verdictAt = (number) => withValues(record("verdicts", number));
const factAt = (number) => withValues(record("facts", number));
const environmentAt = (number) => record("environments", number).pairs;

function caseAt(number) {
  const row = record("cases", number);
  return {
    ...row,
    facts: record("fact_lists", row.facts).facts.map(factAt),
    failures: { unpatched: value(row.unpatched_failure), patched: value(row.patched_failure) },
    environment: environmentAt(row.environment),
    diff: row.diff === null ? null : diffAt(row.diff),
    history: new Map(row.history.map((at) => record("histories", at)).map((past) => [past.fact, past])),
  };
}

function diffAt(number) {
  const { equal, kernels, calls } = record("diffs", number);
  const lines = (kernel) => kernel.lines.map((at) => record("diff_lines", at));
  return { equal, calls: calls.map((at) => record("calls", at)), kernels: kernels.map((at) => record("kernels", at)).map((kernel) => ({ ...kernel, lines: lines(kernel) })) };
}

const PATCHES = rowsOf("patches").map((patch) => ({ ...patch, symptom: patch.symptom && Object.fromEntries(patch.symptom) }));
const CASES = rowsOf("cases");

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
    for (const { check, item, cells } of lines.map((at) => record("lines", at))) {
      const leaf = node(item, [id, check, item], deep + 2, cells.map((at) => (at === null ? null : record("cells", at))), []);
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
