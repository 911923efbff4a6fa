// Keys of the review desk. Without this file everything works as plain forms and links.
"use strict";
(() => {
  const acts = { q: "quarantine", r: "release", d: "duplicate", i: "needs-info" };
  const rows = () => [...document.querySelectorAll("[data-item]")];
  const selected = () => document.querySelector("[data-item].selected");

  function select(row) {
    for (const one of rows()) one.classList.toggle("selected", one === row);
    const link = row.querySelector("a.open");
    link.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
  }

  function move(step) {
    const all = rows();
    if (all.length === 0) {
      const link = document.querySelector(step > 0 ? "a[rel=next]" : "a[rel=prev]");
      if (link) link.click();
      return;
    }
    const place = all.indexOf(selected());
    const next = place < 0 ? 0 : Math.min(all.length - 1, Math.max(0, place + step));
    select(all[next]);
  }

  function choose(act) {
    const form = document.getElementById("act");
    if (form) {
      const choice = [...form.elements.act].find((one) => one.value === act);
      choice.checked = true;
      const reason = form.querySelector(".reason");
      reason.scrollIntoView({ block: "center" });
      reason.focus();
      return;
    }
    const row = selected();
    if (!row) return;
    const address = new URL(row.querySelector("a.open").href);
    address.searchParams.set("act", act);
    window.location.assign(address);
  }

  function help() {
    const dialog = document.getElementById("help");
    if (dialog.open) dialog.close();
    else dialog.showModal();
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const at = event.target;
    if (at.matches("input:not([type=radio]):not([type=checkbox]), select, textarea")) {
      if (event.key === "Escape") at.blur();
      return;
    }
    const open = document.getElementById("help").open;
    if (open && event.key !== "?") return;
    if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "o" && selected()) selected().querySelector("a.open").click();
    else if (event.key in acts) choose(acts[event.key]);
    else if (event.key === "u") {
      const form = document.getElementById("undo");
      if (form) form.requestSubmit();
    } else if (event.key === "?") help();
    else return;
    event.preventDefault();
  });

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-help]")) help();
  });

  document.addEventListener("focusin", (event) => {
    const row = event.target.closest("[data-item]");
    if (row) for (const one of rows()) one.classList.toggle("selected", one === row);
  });

  // A page that was asked for with an act leads to the reason at once.
  const asked = new URLSearchParams(window.location.search).get("act");
  if (Object.values(acts).includes(asked)) choose(asked);
})();
