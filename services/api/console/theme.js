// Colour theme: the system's or the user's choice. Runs before the page is drawn, so that the wrong colours never flash.
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
