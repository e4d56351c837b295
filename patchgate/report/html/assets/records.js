// The data of the page as records: what is kept once there is put together here, when it is asked for.

const data = JSON.parse(byId("data").textContent);
const text = (at) => data.texts[at];

function verdictAt(at) {
  const [colour, ...rest] = data.verdicts[at];
  const [code, kind, subject, expected, actual, where, why, step, typed] = rest.map(text);
  return { colour, code, kind, subject, expected, actual, where, why, step, typed };
}

function factAt(at) {
  const [fact, golden, goldenUnpatched, unpatched, patched, kind] = data.rows[at].map(text);
  return { fact, golden, goldenUnpatched, unpatched, patched, kind };
}

function caseAt(at) {
  const [name, torch, facts, failures, environment, diff, history] = data.cases[at];
  return {
    name, torch,
    facts: data.tables[facts].map(factAt),
    failures: failures.map(text),
    environment: data.environments[environment],
    diff: diff === null ? null : data.diffs[diff],
    history: new Map(history.map(([fact, ...sides]) => [fact, sides])),
  };
}

const cellOf = ([colour, count, codes, verdicts, cases]) => ({ colour, count, codes, verdicts, cases });

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
  const deep = data.patches.length > 1 ? 1 : 0;
  const patches = data.patches.map(([id, title, symptom, lines]) => {
    const checks = new Map();
    for (const [check, item, cells] of lines) {
      const leaf = node(item, [id, check, item], deep + 2, cells.map((cell) => cell && cellOf(cell)), []);
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
