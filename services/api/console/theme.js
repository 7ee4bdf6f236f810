// Which colours: the system's, or what was chosen here. Runs before anything is drawn, so that nothing flashes.
(() => {
  const CHOICES = ["system", "light", "dark"];

  function chosen() {
    const kept = localStorage.getItem("weir-theme");
    return CHOICES.includes(kept) ? kept : "system";
  }

  function show(choice) {
    if (choice === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = choice;
  }

  function told(button) {
    button.lastElementChild.textContent = chosen();
  }

  show(chosen());
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    if (!button) return;
    told(button);
    button.addEventListener("click", () => {
      const next = CHOICES[(CHOICES.indexOf(chosen()) + 1) % CHOICES.length];
      localStorage.setItem("weir-theme", next);
      show(next);
      told(button);
      dispatchEvent(new Event("weir-theme"));
    });
  });
})();
