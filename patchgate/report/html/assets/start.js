// Everything that happens when the page is opened, and what it listens to.

function startPlots() {
  for (const [id, , symptom] of data.patches) {
    if (data.patches.length > 1 || !symptom) continue;
    const [name, fact, predicate] = symptom;
    const list = fact.replace(/\.max$/, "");
    const records = data.cases.map((_, at) => at).filter((at) => data.cases[at][0] === name).map(caseAt)
      .sort((a, b) => data.torches.indexOf(a.torch) - data.torches.indexOf(b.torch));
    const drawnFor = records.flatMap((record) => {
      const told = record.facts.find((one) => one.fact === list);
      const sides = told ? [numbersOf(told.unpatched), numbersOf(told.patched)] : [];
      return told && sides.every(Boolean) ? [layers(`torch ${record.torch}`, ...sides, limitOf(predicate))] : [];
    });
    if (!drawnFor.length) continue;
    byId("symptom").hidden = false;
    byId("symptom-told").textContent = `${name}: ${fact} ${predicate}. ${list} of each distinct kernel, in the order of their definition:`;
    byId("symptom").querySelector(".plots").before(legend(limitOf(predicate)));
    byId("symptom").querySelector(".plots").append(...drawnFor);
  }
}

// One column a torch; what its devices differ in is told of each.
function startEnvironment() {
  const known = data.torches.map((torch) => {
    const told = new Map();
    for (const at of new Set(data.cases.filter((one) => one[1] === torch).map((one) => one[4]))) {
      for (const [name, value] of data.environments[at]) told.set(name, (told.get(name) ?? new Set()).add(value));
    }
    return told;
  });
  const names = [...new Set(known.flatMap((one) => [...one.keys()]))].sort();
  const rows = names.map((name) => [name, ...known.map((one) => [...(one.get(name) ?? ["-"])].join("; "))]);
  byId("environment").append(rows.length ? table("environment of each row", ["", ...data.torches.map((torch) => `torch ${torch}`)], rows)
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
document.documentElement.dataset.ready = "yes";
