// The drill-down: what one cell of the matrix says, and what it was made of.

const dialog = byId("cell");

// #patch/check/item@torch, each part escaped. The address is the state: back closes, and a link can be sent.
function addressed(hash) {
  const [, path, torch] = /^#(.+)@(.+)$/.exec(hash) || [];
  if (!path) return null;
  const parts = path.split("/").map(decodeURIComponent);
  let [nodes, found] = [ROOTS, null];
  for (let depth = parts.length === 1 ? 0 : PATCHES.length > 1 ? 0 : 1; depth < parts.length; depth++) {
    found = nodes.find((one) => one.path[depth] === parts[depth]);
    if (!found) return null;
    nodes = found.children;
  }
  const column = data.torches.indexOf(decodeURIComponent(torch));
  return found && column >= 0 && found.cells[column] ? { one: found, column } : null;
}

function showAddress() {
  let at = null;
  try { at = addressed(location.hash); } catch { /* an address that was cut off shows nothing */ }
  if (!at) {
    if (dialog.open) dialog.close();
    return;
  }
  byId("cell-title").textContent = `${at.one.path.slice(PATCHES.length > 1 ? 0 : 1).join(" · ")} · torch ${data.torches[at.column]}`;
  byId("cell-body").replaceChildren(...body(at.one, at.column));
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  byId("cell-title").focus({ preventScroll: true });
}

function body(one, column) {
  const leaves = leavesOf(one).filter((leaf) => leaf.cells[column]);
  const verdicts = leaves.flatMap((leaf) => leaf.cells[column].verdicts);
  const coloured = verdicts.filter((verdict) => verdict.colour).sort((a, b) => WORST_FIRST.indexOf(a.colour) - WORST_FIRST.indexOf(b.colour));
  const good = verdicts.filter((verdict) => !verdict.colour);
  const cell = one.cells[column];
  const shown = coloured.slice(0, 40).map(verdictBlock);
  if (coloured.length > shown.length) shown.push(element("p", { class: "dim" }, `and ${coloured.length - shown.length} more: open the lines below this one`));
  const cases = one.children.length ? [] : leaves[0].cells[column].cases;
  return [
    element("p", {}, badge(cell.colour, `${cell.count} ${data.colours[cell.colour].word}`), ...(one.children.length ? [links(leaves, column)] : [])),
    turnsOf([...one.path, data.torches[column]].join("\n")),
    ...shown,
    ...cases.flatMap((found) => caseBlocks(found, one.path[0])),
    good.length ? element("details", {}, element("summary", {}, `${good.length} green`), goodTable(good.slice(0, 200))) : null,
  ].filter(Boolean);
}

// The colour of a cell in each of the last runs, when it was not always the same.
const TURNS = { g: "✓ green", r: "✗ red", "?": "? not judged", "-": "- not there" };
function turnsOf(key) {
  const marks = data.turns[key];
  return marks ? element("p", { class: "dim" }, `last ${marks.length} runs, oldest first: ${[...marks].map((mark) => TURNS[mark]).join(", ")}`) : null;
}

function links(leaves, column) {
  const bad = leaves.filter((leaf) => leaf.cells[column].colour).slice(0, 30);
  return element("span", { class: "links" }, bad.map((leaf) =>
    element("a", { href: `#${pathOf(leaf)}@${encodeURIComponent(data.torches[column])}` }, leaf.label)));
}

function verdictBlock(verdict) {
  const pair = (name, content, kind) => (content ? [element("dt", {}, name), element("dd", { class: kind }, content)] : []);
  return element("div", { class: `verdict ${data.colours[verdict.colour].name}` },
    element("h3", {}, badge(verdict.colour, verdict.code), ` ${data.codes[verdict.code] || ""}`),
    element("p", {}, element("strong", {}, verdict.subject), ` (${verdict.kind})`),
    element("dl", {}, pair("expected", verdict.expected, "value"), pair("actual", verdict.actual, "value actual"), pair("where", verdict.where, "value"),
      pair("why", verdict.why), pair("next", verdict.advice)),
    ...verdict.commands.flatMap(({ when, text }) => [when ? element("p", {}, `${when}:`) : null, command(text)]),
    command(`patchgate explain ${verdict.code}`));
}

function goodTable(verdicts) {
  return table("what is as expected", ["what", "expected", "actual"], verdicts.map((v) => [`${v.code} ${v.subject}`, v.expected, v.actual]));
}

const isSymptomOf = (symptom, one) => symptom !== null && one.name === `${symptom.workload}.${symptom.device}`;

function caseBlocks(one, patch) {
  const { symptom } = PATCHES.find(({ id }) => id === patch);
  const limit = isSymptomOf(symptom, one) && symptom.fact.startsWith("loads") ? limitOf(symptom.predicate) : null;
  return [
    element("h3", {}, `${one.name} on torch ${one.torch}`),
    ...["unpatched", "patched"].flatMap((side) => (one.failures[side] ? [element("h4", {}, `${side} failed`), element("pre", {}, one.failures[side])] : [])),
    ...loadsOf(one, limit),
    ...factsBlock(one),
    ...codeBlock(one.diff),
    element("details", {}, element("summary", {}, "Environment"), table("environment", ["what", "value"], one.environment)),
  ];
}

function loadsOf(one, limit) {
  const drawnFor = ["loads", "stores"].flatMap((name) => {
    const fact = one.facts.find((each) => each.name === name);
    const sides = fact ? [numbersOf(fact.unpatched), numbersOf(fact.patched)] : [];
    return fact && sides.every(Boolean) ? [layers(`${name} per distinct kernel`, ...sides, name === "loads" ? limit : null)] : [];
  });
  return drawnFor.length ? [legend(limit), element("div", { class: "plots" }, drawnFor)] : [];
}

const isNotable = (fact) => fact.code !== "" && fact.kind !== "pass";
const isMoved = (fact) => fact.golden !== fact.patched || fact.unpatched !== fact.patched || isNotable(fact);

function factsBlock(one) {
  if (!one.facts.length) return [];
  const moved = one.facts.filter(isMoved).sort((a, b) => isNotable(b) - isNotable(a));
  const holder = element("div");
  const show = (facts) => holder.replaceChildren(facts.length ? factsTable(one, facts)
    : element("p", { class: "dim" }, "golden, unpatched and patched are equal in every fact"));
  const box = element("input", { type: "checkbox" });
  box.addEventListener("change", () => show(box.checked ? one.facts : moved));
  show(moved);
  return [element("h4", {}, "Facts"),
    element("label", { class: "toggle" }, box, ` all ${one.facts.length} facts, not only the ${moved.length} that differ`), holder];
}

function factsTable(one, facts) {
  const past = new Map(one.history.map((each) => [each.fact, each]));
  const heads = ["fact", "golden", "unpatched", "patched", "result", ...(past.size ? ["history"] : [])];
  const rows = facts.map((fact) => {
    const cells = [
      fact.name,
      fact.golden === fact.golden_unpatched || fact.unpatched === fact.golden_unpatched ? grouped(fact.golden)
        : [fact.golden || "-", element("span", { class: "dim" }, ` (unpatched ${fact.golden_unpatched || "-"})`)],
      grouped(fact.unpatched),
      [element("span", { class: fact.patched === fact.unpatched ? "" : "moved" }, grouped(fact.patched)), change(fact)],
      isNotable(fact) ? `${fact.kind} ${fact.code}` : fact.kind,
      ...(past.size ? [past.has(fact.name) ? sparkline(past.get(fact.name)) : ""] : []),
    ];
    cells.class = isNotable(fact) ? "notable" : "";
    return cells;
  });
  const made = table(`facts of ${one.name}`, heads, rows);
  made.classList.add("facts");
  return made;
}

const grouped = (text) => (/^\d{5,}$/.test(text) ? Number(text).toLocaleString("en") : text || "-");

// By how much a number moved; a reader should not have to divide nine digits in the head.
function change(fact) {
  const [before, after] = [fact.unpatched, fact.patched].map((content) => (/^\d+$/.test(content) ? Number(content) : NaN));
  if (!(before > 0) || Number.isNaN(after) || before === after) return "";
  const percent = (100 * (after - before)) / before;
  return element("span", { class: "dim whole" }, `${percent > 0 ? "+" : "−"}${Math.abs(percent).toFixed(Math.abs(percent) < 10 ? 1 : 0)} %`);
}

function codeBlock(diff) {
  if (!diff) return [];
  const { equal, kernels, calls } = diff;
  const same = `${equal} kernels are the same on both sides`;
  if (!kernels.length) return [element("h4", {}, "Generated code"), element("p", { class: "dim" }, `${same}, and so is what calls them.`)];
  return [element("h4", {}, "Generated code, unpatched against patched"), element("p", { class: "dim" }, `${same}.`), ...callsBlock(calls), ...kernels.map(kernelBlock)];
}

// Which kernel reads and writes what, on both sides: a value that is stored, or computed again, can be seen.
function callsBlock(calls) {
  if (!calls.length) return [];
  const box = ([name, reads, writes]) => (name ? element("div", { class: "call" }, element("code", {}, name),
    element("div", {}, `reads ${reads || "-"}`), element("div", {}, `writes ${writes || "-"}`)) : "");
  const rows = calls.map(({ old, new: made, note }) => Object.assign([note || "the same", box(old), box(made)], { class: note && (old.length || made.length) ? "notable" : "" }));
  const made = table("calls of kernels", ["difference", "without the patch", "with the patch"], rows);
  made.classList.add("calls");
  return [element("h4", {}, "Calls of kernels that differ, with their neighbours"), made];
}

function kernelBlock({ old, new: made, lines }, at) {
  const count = (sign) => lines.filter((line) => line.sign === sign).length;
  const name = !made ? `${old} is gone` : !old ? `${made} is new` : old === made ? old : `${old} → ${made}`;
  const block = element("details", { class: "kernel" },
    element("summary", {}, element("code", {}, name), element("span", { class: "dim" }, ` −${count("-")} +${count("+")} lines`)));
  const draw = () => block.children.length < 2 && block.append(element("div", { class: "code", tabindex: 0, role: "region", "aria-label": `diff of ${name}` },
    element("table", { role: "table" }, lines.map(codeLine))));
  block.addEventListener("toggle", draw);
  if (at === 0) { block.open = true; draw(); }
  return block;
}

const LINES = { "-": "gone", "+": "come", " ": "", "@": "left-out" };
function codeLine({ sign, old, new: made, tokens }) {
  const spans = tokens.map(([kind, text]) => (kind ? element("span", { class: kind }, text) : text));
  const cell = (name, content) => element("td", { role: "cell", class: name }, content);
  return element("tr", { role: "row", class: LINES[sign] }, cell("number", String(old || "")), cell("number", String(made || "")),
    cell("sign", sign === "@" ? "" : sign), element("td", { role: "cell" }, element("code", {}, spans)));
}
