// Plots as SVG: loads per kernel, a fact over time. Each says in words what it shows.

const numbersOf = (text) => (/^\[[\d ]+\]$/.test(text) ? text.slice(1, -1).split(" ").map(Number) : null);

function figure(caption, svg) {
  return element("figure", {}, svg, element("figcaption", {}, caption));
}

function limitOf(predicate) {
  const found = /^\s*>=?\s*(\d+)\s*$/.exec(predicate || "");
  return found ? Number(found[1]) : null;
}

// Two bars a kernel: hollow without the patch, solid with it; the numbers stand on the bars.
function layers(caption, unpatched, patched, limit) {
  const count = Math.max(unpatched.length, patched.length);
  const most = Math.max(...unpatched, ...patched, limit ?? 0, 1);
  const [step, height, left] = [Math.max(30, Math.min(46, 460 / count)), 120, 8];
  const width = left + count * step + 8;
  const y = (value) => 24 + height - (value / most) * height;
  const svg = drawn("svg", {
    viewBox: `0 0 ${width} ${height + 44}`, width, height: height + 44, role: "img",
    "aria-label": `${caption}: unpatched ${unpatched.join(" ")}, patched ${patched.join(" ")}`,
  });
  const bar = (value, x, side) => [
    drawn("rect", { class: `bar ${side}`, x, y: y(value), width: step * 0.38, height: 24 + height - y(value) }),
    drawn("text", { x: x + step * 0.19, y: y(value) - 4, "text-anchor": "middle" }, String(value)),
  ];
  for (let at = 0; at < count; at++) {
    const x = left + at * step;
    if (at < unpatched.length) svg.append(...bar(unpatched[at], x + step * 0.1, "unpatched"));
    if (at < patched.length) svg.append(...bar(patched[at], x + step * 0.52, "patched"));
    svg.append(drawn("text", { class: "tick", x: x + step / 2, y: height + 40, "text-anchor": "middle" }, String(at)));
  }
  svg.append(drawn("line", { class: "axis", x1: left, x2: width - 8, y1: 24 + height, y2: 24 + height }));
  if (limit !== null && limit !== undefined) {
    svg.append(drawn("line", { class: "limit", x1: left, x2: width - 8, y1: y(limit), y2: y(limit) }));
  }
  return figure(caption, svg);
}

function legend(limit) {
  const key = (side, label) => element("span", { class: "key" },
    drawn("svg", { width: 14, height: 14, "aria-hidden": "true" },
      drawn("rect", { class: `bar ${side}`, x: 2, y: 2, width: 10, height: 10 })), label);
  const line = limit === null ? null : element("span", { class: "key" },
    drawn("svg", { width: 20, height: 14, "aria-hidden": "true" },
      drawn("line", { class: "limit", x1: 0, x2: 20, y1: 7, y2: 7 })), `symptom above ${limit}`);
  return element("p", { class: "legend" }, key("unpatched", "unpatched"), key("patched", "patched"), line);
}

// Both sides of a fact over the runs of the history, as far as they are numbers.
function sparkline(past) {
  const [unpatched, patched] = [past.unpatched, past.patched].map((side) => side.map(Number));
  const all = [...unpatched, ...patched];
  const changes = past.patched.filter((value, at) => value !== past.patched[at - 1]);
  const label = `${past.patched.length} runs: ${changes.length > 1 ? changes.join(", then ") : "unchanged"}`;
  if (all.some(Number.isNaN)) return element("span", { class: "dim" }, label);
  const [low, high, width] = [Math.min(...all), Math.max(...all), 84];
  const y = (value) => (high === low ? 10 : 17 - (14 * (value - low)) / (high - low));
  const line = (values, side) => drawn("polyline", {
    class: `spark ${side}`,
    points: values.map((value, at) => `${3 + (at * (width - 6)) / Math.max(1, values.length - 1)},${y(value)}`).join(" "),
  });
  return drawn("svg", { viewBox: `0 0 ${width} 20`, width, height: 20, role: "img", "aria-label": `${past.fact}, ${label}` },
    drawn("title", {}, label), line(unpatched, "unpatched"), line(patched, "patched"));
}
