"use strict";
(() => {
  const search = document.getElementById("search");
  if (!search) return;
  document.documentElement.classList.add("live");
  const flips = [...document.querySelectorAll(".flip")];
  const texts = flips.map((flip) => flip.textContent.toLowerCase());
  const selects = [...document.querySelectorAll(".filters select")];
  const shown = document.getElementById("shown");
  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    flips.forEach((flip, place) => {
      const fits = selects.every((select) => !select.value || (flip.dataset[select.id] || "").split("\n").includes(select.value))
        && words.every((word) => texts[place].includes(word));
      flip.hidden = !fits;
      count += fits;
    });
    shown.textContent = count === flips.length ? `${count} questions` : `${count} of ${flips.length} questions`;
    document.getElementById("none").hidden = count > 0;
    document.dispatchEvent(new Event("filtered"));
  };
  search.addEventListener("input", filter);
  selects.forEach((select) => select.addEventListener("change", filter));
  const brief = document.getElementById("brief");
  brief?.addEventListener("change", () => document.getElementById("flips").classList.toggle("brief", brief.checked));
  document.querySelector(".filters").addEventListener("submit", (event) => event.preventDefault());
  filter();
})();
