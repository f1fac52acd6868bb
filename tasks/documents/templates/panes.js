(() => {
  const list = document.getElementById("list");
  if (!list) return;
  const flips = [...document.querySelectorAll(".flip")];
  const [head] = list.tHead.rows, [body] = list.tBodies, frame = document.querySelector(".list");
  const labels = new Map([...document.querySelectorAll(".filters select")].map((select) => [select.id, select.closest("label").firstChild.data.trim()]));
  const differs = (name) => labels.has(name) && document.getElementById(name).options.length > 2;
  const columns = [["id", "Id"], ["status", labels.get("status")], ["text", "Question"],
    ...["database", "difficulty", "cause"].filter(differs).map((name) => [name, labels.get(name)])];
  const value = (flip, name) => name === "text" ? flip.querySelector("h2, h3, h4").textContent : (flip.dataset[name] || "").replaceAll("\n", ", ").replaceAll("_", " ");
  const rows = new Map();
  flips.forEach((flip) => {
    const row = body.insertRow();
    columns.forEach(([name]) => {
      const cell = row.insertCell();
      if (name === "id") {
        const link = document.createElement("a");
        link.href = `#q-${encodeURIComponent(flip.dataset.id)}`;
        link.textContent = flip.dataset.id;
        cell.append(link);
      } else if (name === "status") {
        const badge = flip.querySelector(".about .badge");
        cell.append(badge ? badge.cloneNode(true) : value(flip, name));
      } else cell.textContent = value(flip, name);
      cell.className = name;
    });
    row.addEventListener("click", () => select(flip));
    rows.set(flip, row);
  });
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
  const order = (place, down) => {
    const [name] = columns[place];
    const text = (row) => row.cells[place].textContent;
    const sorted = [...body.rows].sort((a, b) => text(a).localeCompare(text(b), undefined, { numeric: name === "id" }));
    if (down) sorted.reverse();
    body.append(...sorted);
    [...head.cells].forEach((cell, other) => cell.setAttribute("aria-sort", other === place ? down ? "descending" : "ascending" : "none"));
  };
  columns.forEach(([, label], place) => {
    const cell = document.createElement("th"), button = document.createElement("button");
    cell.scope = "col";
    cell.setAttribute("aria-sort", place ? "none" : "ascending");
    button.type = "button";
    button.textContent = label;
    button.addEventListener("click", () => order(place, cell.getAttribute("aria-sort") === "ascending"));
    cell.append(button);
    head.append(cell);
  });
  const visible = () => [...body.rows].filter((row) => !row.hidden);
  const flipOf = new Map([...rows].map(([flip, row]) => [row, flip]));
  document.addEventListener("filtered", () => {
    flips.forEach((flip) => { rows.get(flip).hidden = flip.hidden; });
    if (!current || current.hidden) { const [first] = visible(); select(first && flipOf.get(first), true); }
  });
  frame.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !current) return;
    event.preventDefault();
    const there = visible(), next = there[there.indexOf(rows.get(current)) + step];
    if (next) select(flipOf.get(next));
  });
  const named = decodeURIComponent(location.hash.replace(/^#q-/, ""));
  const first = location.hash.startsWith("#q-") && flips.find((flip) => flip.dataset.id === named)
    || flips.find((flip) => flip.dataset.status === "wrong") || flips[0];
  document.querySelector(".panes").classList.add("ready");
  if (first) select(first, true);
})();
