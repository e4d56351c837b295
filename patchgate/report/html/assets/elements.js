// Making elements. Text only ever becomes text: nothing here, or anywhere, parses markup.

function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function drawn(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

const byId = (id) => document.getElementById(id);

function badge(colour, ...words) {
  const { name, mark } = data.colours[colour];
  return element("span", { class: `badge ${name}` }, [mark, ...words].join(" "));
}

function command(text) {
  const button = element("button", { type: "button", class: "copy", "data-copy": text }, "Copy");
  return element("div", { class: "command" }, element("code", {}, text), button);
}

// A table that stays one for a screen reader when a narrow page lays it out differently.
function table(label, heads, rows) {
  const head = element("tr", { role: "row" }, heads.map((text) => element("th", { role: "columnheader", scope: "col" }, text)));
  const body = rows.map((cells) =>
    element("tr", { role: "row", class: cells.class }, cells.map((cell, at) =>
      at ? element("td", { role: "cell", "data-head": heads[at] }, cell)
         : element("th", { role: "rowheader", scope: "row" }, cell))));
  return element("table", { role: "table", "aria-label": label },
    element("thead", { role: "rowgroup" }, head), element("tbody", { role: "rowgroup" }, body));
}
