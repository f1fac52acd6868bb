(() => {
  document.querySelectorAll("pre.command").forEach((block) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.textContent.trim());
      button.textContent = "copied";
    });
    const frame = document.createElement("div");
    frame.className = "copied";
    block.replaceWith(frame);
    frame.append(block, button);
  });
})();
