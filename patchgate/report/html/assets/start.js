// Everything that happens when the page is opened, and what it listens to.

function startPlots() {
  for (const { symptom } of PATCHES) {
    if (PATCHES.length > 1 || !symptom) continue;
    const { fact, predicate } = symptom;
    const list = fact.replace(/\.max$/, "");
    const records = CASES.filter((one) => isSymptomOf(symptom, one))
      .sort((a, b) => data.torches.indexOf(a.torch) - data.torches.indexOf(b.torch));
    const drawnFor = records.flatMap((found) => {
      const listed = found.facts.find((one) => one.name === list);
      const sides = listed ? [numbersOf(listed.unpatched), numbersOf(listed.patched)] : [];
      return listed && sides.every(Boolean) ? [layers(`torch ${found.torch}`, ...sides, limitOf(predicate))] : [];
    });
    if (!drawnFor.length) continue;
    byId("symptom").hidden = false;
    byId("symptom-text").textContent = `${records[0].name}: ${fact} ${predicate}. ${list} of each distinct kernel, in the order of their definition:`;
    byId("symptom").querySelector(".plots").before(legend(limitOf(predicate)));
    byId("symptom").querySelector(".plots").append(...drawnFor);
  }
}

// One column a torch; what its devices differ in is shown for each.
function startEnvironment() {
  const known = data.torches.map((torch) => {
    const values = new Map();
    for (const one of CASES.filter((each) => each.torch === torch)) {
      for (const [name, value] of one.environment) values.set(name, (values.get(name) ?? new Set()).add(value));
    }
    return values;
  });
  const names = [...new Set(known.flatMap((one) => [...one.keys()]))].sort();
  const rows = names.map((name) => [name, ...known.map((one) => [...(one.get(name) ?? ["-"])].join("; "))]);
  byId("environment").append(rows.length ? table("environment of each row", ["what", ...data.torches.map((torch) => `torch ${torch}`)], rows)
    : element("p", { class: "dim" }, "no facts were observed, so none is known"));
}

async function copy(button) {
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling); // not allowed here: leave it selected
    button.textContent = "Selected";
  }
}

startMatrix();
startFilter();
startPlots();
startEnvironment();
document.addEventListener("click", (event) => {
  const button = event.target.closest("button.copy");
  if (button) copy(button);
  if (event.target === dialog) dialog.close(); // beside it
});
byId("close").addEventListener("click", () => dialog.close());
dialog.addEventListener("close", () => {
  if (addressed(location.hash)) history.replaceState(null, "", "#matrix");
  if (document.activeElement === document.body) focusHere();
});
addEventListener("hashchange", showAddress);
showAddress();
// On paper nothing can be opened or scrolled to.
let closedOnScreen = [];
addEventListener("beforeprint", () => {
  closedOnScreen = [...document.querySelectorAll("details:not([open])")];
  for (const one of closedOnScreen) one.open = true;
  drawAll();
});
addEventListener("afterprint", () => {
  for (const one of closedOnScreen) one.open = false;
  refresh();
});
document.documentElement.dataset.ready = "yes";
