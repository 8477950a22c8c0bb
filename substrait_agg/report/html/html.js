
// --- problems by level and code
(() => {
  const all = (selector) => Array.from(document.querySelectorAll(selector));
  const buttons = all("button[data-show]");
  const codes = document.getElementById("code");
  const status = document.getElementById("shown");
  if (!codes) return;
  const filter = () => {
    const levels = new Set(buttons.filter((b) => b.getAttribute("aria-pressed") === "true").map((b) => b.dataset.show));
    let shown = 0;
    for (const part of all("[data-level]")) {
      part.hidden = !(levels.has(part.dataset.level) && (!codes.value || codes.value === part.dataset.code));
      if (!part.hidden && part.classList.contains("line")) shown += 1;
    }
    status.textContent = `${shown} of ${all(".line").length} shown`;
  };
  for (const button of buttons) {
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
      filter();
    });
  }
  codes.addEventListener("change", filter);
})();
