// The matrix: a tree of rows of which only those in sight are elements, with one cell that takes the focus.

const grid = byId("grid");
const filter = { colour: "all", code: "", text: "" };
const folded = new Map(); // path -> whether the reader opened it
const here = { row: 0, column: 0 };
let rows = [];
const EXTRA = 8; // rows kept above and below those in sight

const inner = element("div", { class: "inner", role: "rowgroup" });
const pathOf = (one) => one.path.map(encodeURIComponent).join("/");
const isFiltered = () => filter.colour !== "all" || filter.code !== "" || filter.text !== "";

function isOpen(one) {
  const key = pathOf(one);
  return folded.has(key) ? folded.get(key) : isFiltered() || (PATCHES.length < 4 && one.worst < 2);
}

function fits(leaf) {
  const wanted = data.colours.findIndex((colour) => colour.name === filter.colour);
  return leaf.cells.some((cell) => cell && (wanted < 0 || cell.colour === wanted) && (!filter.code || cell.codes.includes(filter.code)))
    && (!filter.text || leaf.path.join(" ").toLowerCase().includes(filter.text));
}

// The rows of the tree as they are shown now; a row above others is there when one of them is.
function listed(nodes) {
  const found = [];
  for (const one of nodes) {
    if (!one.children.length) {
      if (fits(one)) found.push(one);
      continue;
    }
    const below = listed(one.children);
    if (below.length) found.push(one, ...(isOpen(one) ? below : []));
  }
  return found;
}

function heightOfRow() {
  return parseFloat(getComputedStyle(grid).getPropertyValue("--row"));
}

function refresh() {
  rows = listed(ROOTS);
  here.row = Math.max(0, Math.min(here.row, rows.length - 1));
  const fitting = isFiltered() ? LEAVES.filter(fits).length : LEAVES.length;
  byId("shown").textContent = `${fitting} of ${LEAVES.length} lines${fitting ? "" : ": nothing has this result"}`;
  grid.setAttribute("aria-rowcount", rows.length + 1);
  inner.style.height = `${rows.length * heightOfRow()}px`;
  draw();
}

function draw() {
  const height = heightOfRow();
  const first = Math.max(0, Math.floor(grid.scrollTop / height) - EXTRA);
  const last = Math.min(rows.length, Math.ceil((grid.scrollTop + grid.clientHeight) / height) + EXTRA);
  const wanted = new Set(Array.from({ length: Math.max(0, last - first) }, (_, at) => first + at));
  if (rows.length) wanted.add(here.row); // the focus must not fall out of the page
  const focused = inner.contains(document.activeElement);
  inner.replaceChildren(...[...wanted].sort((a, b) => a - b).map((at) => rowAt(at, height)));
  if (focused) focusHere();
}

// For paper: every row up to a limit, one below the other.
const ON_PAPER = 1000;
function drawAll() {
  const height = heightOfRow();
  inner.replaceChildren(...rows.slice(0, ON_PAPER).map((_, at) => rowAt(at, height)));
  inner.style.height = `${Math.min(rows.length, ON_PAPER) * height}px`;
  if (rows.length > ON_PAPER) byId("shown").textContent += `; the first ${ON_PAPER} are printed`;
}

function rowAt(at, height) {
  const one = rows[at];
  const isParent = one.children.length > 0;
  const row = element("div", {
    role: "row", class: `row level${one.level}`, "aria-rowindex": at + 2, "aria-level": one.level,
    "aria-expanded": isParent ? String(isOpen(one)) : null,
  });
  row.style.top = `${at * height}px`;
  const head = element("div", { role: "rowheader", class: "cell head", "data-at": `${at} 0`, tabindex: tabAt(at, 0), title: one.label },
    isParent ? element("span", { class: "fold", "aria-hidden": "true" }, isOpen(one) ? "▾" : "▸") : null,
    element("span", { class: "label" }, one.label));
  row.append(head, ...one.cells.map((cell, column) => gridcell(one, cell, at, column)));
  return row;
}

function gridcell(one, cell, at, column) {
  const torch = data.torches[column];
  const attributes = { role: "gridcell", class: "cell", "data-at": `${at} ${column + 1}`, tabindex: tabAt(at, column + 1) };
  if (!cell) return element("div", { ...attributes, "aria-label": `${one.path.join(" ")} on torch ${torch}: nothing was judged` }, "-");
  const { name, mark, word } = data.colours[cell.colour];
  const codes = cell.colour ? cell.codes.join(" ") : "";
  return element("div", {
    ...attributes, class: `cell ${name}`, title: `${cell.count} ${word} ${codes}`,
    "aria-label": `${one.path.join(" ")} on torch ${torch}: ${cell.count} ${word} ${codes}`,
  }, element("span", { class: "mark" }, mark), ` ${cell.count}`, codes ? element("span", { class: "codes" }, shortened(cell.codes)) : null);
}

// As many codes as a narrow cell holds; its title has all.
function shortened(codes) {
  return codes.length > 3 ? `${codes.slice(0, 2).join(" ")} +${codes.length - 2}` : codes.join(" ");
}

const tabAt = (row, column) => (row === here.row && column === here.column ? "0" : "-1");

function focusHere() {
  const found = inner.querySelector(`[data-at="${here.row} ${here.column}"]`);
  if (found) found.focus({ preventScroll: true });
}

function goTo(row, column) {
  here.row = Math.max(0, Math.min(rows.length - 1, row));
  here.column = Math.max(0, Math.min(data.torches.length, column));
  const [height, top] = [heightOfRow(), here.row * heightOfRow()];
  const room = grid.clientHeight - height * 2; // the head covers the first row's place
  if (top < grid.scrollTop) grid.scrollTop = top;
  if (top > grid.scrollTop + room) grid.scrollTop = top - room;
  draw();
  focusHere();
  inner.querySelector(`[data-at="${here.row} ${here.column}"]`)?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function act() {
  const one = rows[here.row];
  if (here.column > 0) {
    if (one.cells[here.column - 1]) location.hash = `${pathOf(one)}@${encodeURIComponent(data.torches[here.column - 1])}`;
  } else if (one.children.length) {
    folded.set(pathOf(one), !isOpen(one));
    refresh();
    focusHere();
  }
}

const page = () => Math.max(1, Math.floor(grid.clientHeight / heightOfRow()) - 2);
const KEYS = {
  ArrowDown: () => goTo(here.row + 1, here.column),
  ArrowUp: () => goTo(here.row - 1, here.column),
  ArrowRight: () => goTo(here.row, here.column + 1),
  ArrowLeft: () => goTo(here.row, here.column - 1),
  PageDown: () => goTo(here.row + page(), here.column),
  PageUp: () => goTo(here.row - page(), here.column),
  Home: () => goTo(0, here.column),
  End: () => goTo(rows.length - 1, here.column),
  Enter: act,
  " ": act,
};

function onKey(event) {
  if (event.altKey || event.ctrlKey || event.metaKey || !rows.length || !(event.key in KEYS)) return;
  event.preventDefault();
  KEYS[event.key]();
}

function onClick(event) {
  const cell = event.target.closest("[data-at]");
  if (!cell) return;
  [here.row, here.column] = cell.dataset.at.split(" ").map(Number);
  draw();
  focusHere();
  act();
}

function startMatrix() {
  const heads = [["check"], ...data.torches.map((torch) => [element("span", { class: "wide" }, "torch"), torch])];
  grid.append(element("div", { role: "rowgroup", class: "heads" }, element("div", { role: "row", "aria-rowindex": 1, class: "row" },
    heads.map((heading, at) => element("div", { role: "columnheader", class: at ? "cell" : "cell head" }, heading)))), inner);
  grid.setAttribute("aria-colcount", heads.length);
  grid.style.setProperty("--columns", data.torches.length);
  grid.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
  grid.addEventListener("keydown", onKey);
  grid.addEventListener("click", onClick);
  new ResizeObserver(refresh).observe(grid);
  refresh();
}

function startFilter() {
  const form = byId("filter");
  for (const [code, title] of Object.entries(data.codes)) form.elements.code.append(element("option", { value: code }, `${code} ${title}`));
  form.addEventListener("submit", (event) => event.preventDefault());
  const apply = () => {
    filter.colour = form.elements.colour.value;
    filter.code = form.elements.code.value;
    filter.text = form.elements.text.value.trim().toLowerCase();
    folded.clear();
    grid.scrollTop = 0;
    refresh();
  };
  form.addEventListener("input", apply);
  form.addEventListener("change", apply); // all that some ways of choosing from a list tell
}
