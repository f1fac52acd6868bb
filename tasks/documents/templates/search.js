document.documentElement.classList.add("live");
document.querySelectorAll("input.rows").forEach((search) => {
  const filters = search.closest(".filters"), rows = [...filters.nextElementSibling.querySelectorAll("tbody tr")];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  search.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    rows.forEach((row, place) => { row.hidden = !words.every((word) => texts[place].includes(word)); });
    filters.querySelector("output").textContent = words.length ? `${rows.filter((row) => !row.hidden).length} of ${rows.length}` : "";
  });
});
