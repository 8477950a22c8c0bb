(() => {
  const SECOND = 1000;
  const DRAWING = "http://www.w3.org/2000/svg";
  const UNSEEN = /[\x00-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\ufff0-\ufffb\ufffe\uffff\u{e0000}-\u{e0fff}]/gu;
  const main = document.getElementById("main");
  const state = document.getElementById("state");
  let tag = main.dataset.tag;

  // --- the content: always as text, never as HTML
  const escaped = (character) => {
    const code = character.codePointAt(0);
    const [mark, digits] = code < 0x100 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
    return "\\" + mark + code.toString(16).padStart(digits, "0");
  };
  const element = (name, text) => {
    const made = document.createElement(name);
    made.textContent = text.replace(UNSEEN, escaped);
    return made;
  };
  const line = (points) => {
    const drawing = document.createElementNS(DRAWING, "svg");
    drawing.setAttribute("viewBox", "0 0 60 16");
    drawing.setAttribute("aria-hidden", "true");
    const drawn = document.createElementNS(DRAWING, "polyline");
    drawn.setAttribute("points", points);
    drawing.append(drawn);
    return drawing;
  };
  const fill = (id, table) => {
    const rows = table.rows.map((texts, row) => {
      const made = document.createElement("tr");
      made.append(...texts.map((text, at) => {
        const cell = document.createElement("td");
        if (table.columns[at].number) cell.className = "number";
        const points = table.lines.length ? table.lines[row][at] : "";
        if (points) cell.append(line(points));
        cell.append(element("span", text));
        return cell;
      }));
      return made;
    });
    document.querySelector(`#${id} tbody`).replaceChildren(...rows);
  };
  const show = (data) => {
    const problem = document.getElementById("problem");
    problem.hidden = !data.problem;
    problem.textContent = data.problem.replace(UNSEEN, escaped);
    document.getElementById("facts").replaceChildren(...data.facts.map(([name, text]) => {
      const made = document.createElement("div");
      made.append(element("dt", name), element("dd", text));
      return made;
    }));
    data.views.forEach((view, number) => {
      fill(`rows${number}`, view);
      document.getElementById(`more${number}`).hidden = !view.more;
    });
    fill("versions", data.versions);
    fill("outputs", data.outputs);
    document.getElementById("delivery").hidden = !data.outputs.rows.length;
  };

  // --- a version that is shown already costs an answer without a body
  const say = (text, lost) => {
    document.body.classList.toggle("lost", lost);
    if (state.textContent !== text) state.textContent = text;
  };
  const update = async () => {
    if (document.hidden) return;
    const answer = await fetch("data.json", { cache: "no-store", headers: { "If-None-Match": tag } });
    if (answer.status === 304) { say("This page follows the run.", false); return; }
    if (!answer.ok) throw new Error(answer.statusText);
    const data = await answer.json();
    // Another run, or views that had no version yet: they have other tables.
    if (data.run !== main.dataset.run) { location.reload(); return; }
    tag = answer.headers.get("ETag");
    show(data);
    say("This page follows the run.", false);
  };
  const follow = async () => {
    try {
      await update();
    } catch {
      say("The run does not answer: it has ended. These are the last rows that were shown.", true);
    }
    setTimeout(follow, SECOND);
  };

  // --- several views: one at a time
  const tabs = Array.from(document.querySelectorAll("[role=tab]"));
  const choose = (chosen) => tabs.forEach((tab, number) => {
    tab.setAttribute("aria-selected", String(tab === chosen));
    tab.tabIndex = tab === chosen ? 0 : -1;
    document.getElementById(`view${number}`).hidden = tab !== chosen;
  });
  tabs.forEach((tab, number) => {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(number + step + tabs.length) % tabs.length];
      choose(next);
      next.focus();
    });
  });
  if (tabs.length) choose(tabs[0]);
  follow();
})();
