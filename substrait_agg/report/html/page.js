
"use strict";
(() => {
  const all = (selector, root) => Array.from((root || document).querySelectorAll(selector));

  // --- a link to a place opens everything around it
  const reveal = () => {
    let id = location.hash.slice(1);
    try { id = decodeURIComponent(id); } catch { return; }
    const target = id && document.getElementById(id);
    if (!target) return;
    target.hidden = false;
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (!target.hasAttribute("tabindex")) target.tabIndex = -1;
    target.focus({ preventScroll: true });
    target.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", reveal);
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (link && link.getAttribute("href") === location.hash) reveal();
  });

  // --- the path of a node is the steps on the way to it
  const pathOf = (details) => {
    const steps = [];
    for (let at = details; at; ) {
      const step = at.querySelector(":scope > summary > .step");
      if (step) steps.unshift(step.textContent);
      const outer = at.parentElement.closest("details");
      const block = at.closest("[data-from]");
      if (outer && (!block || block.contains(outer))) at = outer;
      else at = block && document.getElementById(block.dataset.from).closest("details");
    }
    return steps.join(".");
  };
  const where = document.getElementById("where");
  const button = document.getElementById("copy");
  if (where && button) {
    const show = (event) => {
      const summary = event.target.closest(".tree summary");
      if (!summary) return;
      const steps = (pathOf(summary.parentElement) || "the whole plan").split(".");
      where.replaceChildren(...steps.flatMap((step, at) => at ? [".", document.createElement("wbr"), step] : [step]));
      button.textContent = "Copy path";
      where.parentElement.hidden = false;
    };
    document.addEventListener("focusin", show);
    document.addEventListener("click", show);
    button.addEventListener("click", async () => {
      let done = true;
      try {
        await navigator.clipboard.writeText(where.textContent);
      } catch {
        getSelection().selectAllChildren(where);
        done = document.execCommand("copy");
      }
      button.textContent = done ? "Copied" : "Select and copy by hand";
    });
  }

  // --- open and close a whole tree
  document.addEventListener("click", (event) => {
    const asked = event.target.closest("button[data-open]");
    if (!asked) return;
    for (const details of all(".tree details", asked.closest("section") || document)) {
      details.open = asked.dataset.open === "all"
        || (asked.dataset.open === "problems" && details.querySelector(".problem") !== null);
    }
  });

  // --- what is only of use with this script
  for (const part of all("[data-script]")) part.hidden = part.classList.contains("where");
  if (location.hash) reveal();
})();
