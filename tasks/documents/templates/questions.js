"use strict";
document.documentElement.classList.add("live");
document.querySelectorAll(".questions").forEach((part) => {
  const flips = [...part.querySelectorAll(".flip")];
  const selects = [...part.querySelectorAll("select")], search = part.querySelector("[type=search]");
  const list = part.querySelector(".list table"), frame = part.querySelector(".list");
  const [head] = list.tHead.rows, [body] = list.tBodies;
  const [badge, ...others] = selects.map((select) => ({ name: select.name, label: select.closest("label").firstChild.data.trim(), several: select.options.length > 2 }));
  const columns = [{ name: "id", label: "Id" }, ...(badge ? [badge] : []), { name: "text", label: "Question" }, ...others.slice(0, 3).filter((each) => each.several)];
  const value = (flip, name) => name === "text" ? flip.querySelector("h2, h3, h4, h5").textContent : (flip.dataset[name] || "").replaceAll("\n", ", ").replaceAll("_", " ");
  const rows = new Map(), flipOf = new Map();
  let current;
  const select = (flip, quiet) => {
    if (current) { current.classList.remove("read"); rows.get(current).removeAttribute("aria-current"); }
    current = flip;
    if (!flip) return;
    flip.classList.add("read");
    rows.get(flip).setAttribute("aria-current", "true");
    if (!quiet) history.replaceState(null, "", `#q-${encodeURIComponent(flip.dataset.id)}`);
    const row = rows.get(flip), above = head.offsetHeight;
    if (row.offsetTop - above < frame.scrollTop) frame.scrollTop = row.offsetTop - above;
    else if (row.offsetTop + row.offsetHeight > frame.scrollTop + frame.clientHeight) frame.scrollTop = row.offsetTop + row.offsetHeight - frame.clientHeight;
  };
  flips.forEach((flip) => {
    const row = body.insertRow();
    columns.forEach((column) => {
      const cell = row.insertCell(), mark = column === badge && flip.querySelector(".about .badge");
      if (column.name === "id") {
        const link = document.createElement("a");
        link.href = `#q-${encodeURIComponent(flip.dataset.id)}`;
        link.textContent = flip.dataset.id;
        cell.append(link);
      } else cell.append(mark ? mark.cloneNode(true) : value(flip, column.name));
      cell.className = ["id", "text"].includes(column.name) ? column.name : "";
    });
    row.addEventListener("click", () => select(flip));
    rows.set(flip, row);
    flipOf.set(row, flip);
  });
  columns.forEach(({ name, label }, place) => {
    const cell = document.createElement("th"), button = document.createElement("button");
    const text = (row) => row.cells[place].textContent;
    cell.scope = "col";
    cell.setAttribute("aria-sort", "none");
    button.type = "button";
    button.textContent = label;
    button.addEventListener("click", () => {
      const down = cell.getAttribute("aria-sort") === "ascending";
      const sorted = [...body.rows].sort((a, b) => text(a).localeCompare(text(b), undefined, { numeric: name === "id" }));
      body.append(...(down ? sorted.reverse() : sorted));
      [...head.cells].forEach((other) => other.setAttribute("aria-sort", other === cell ? down ? "descending" : "ascending" : "none"));
    });
    cell.append(button);
    head.append(cell);
  });
  const visible = () => [...body.rows].filter((row) => !row.hidden);
  frame.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !current) return;
    event.preventDefault();
    const there = visible(), next = there[there.indexOf(rows.get(current)) + step];
    if (next) select(flipOf.get(next));
  });
  const texts = search && flips.map((flip) => flip.textContent.toLowerCase());
  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    flips.forEach((flip, place) => {
      const fits = selects.every((each) => !each.value || (flip.dataset[each.name] || "").split("\n").includes(each.value))
        && words.every((word) => texts[place].includes(word));
      flip.hidden = rows.get(flip).hidden = !fits;
      count += fits;
    });
    part.querySelector("output").textContent = count === flips.length ? `${count} question${count === 1 ? "" : "s"}` : `${count} of ${flips.length} questions`;
    part.querySelector(".none").hidden = count > 0;
    if (!current || current.hidden) { const [first] = visible(); select(first && flipOf.get(first), true); }
  };
  if (search) {
    search.addEventListener("input", filter);
    selects.forEach((each) => each.addEventListener("change", filter));
  }
  // A link such as "#questions-wrong" shows the questions that have this value of a filter.
  const follow = () => {
    const value = location.hash.startsWith("#questions-") && location.hash.slice("#questions-".length);
    const chosen = selects.find((each) => [...each.options].some((option) => option.value && option.value === value));
    if (!chosen) return;
    chosen.value = value;
    filter();
    part.scrollIntoView();
  };
  addEventListener("hashchange", follow);
  const named = location.hash.startsWith("#q-") && decodeURIComponent(location.hash.slice(3));
  const first = flips.find((flip) => flip.dataset.id === named) || flips.find((flip) => flip.querySelector(".about .badge.bad")) || flips[0];
  part.querySelector(".panes").classList.add("ready");
  if (first) select(first, true);
  follow();
});
