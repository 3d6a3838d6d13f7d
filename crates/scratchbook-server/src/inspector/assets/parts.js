// Parts of a page: links and forms with `data-part` replace a part of the page instead of opening another page.
"use strict";

// Fetches a part and puts it in place of the element; the newest request for an element wins. A part that is not what
// the page's own address shows remembers its address.
const pending = new Map();
let replaced = 0;

async function replacePart(address, selector) {
  pending.get(selector)?.abort();
  const stop = new AbortController();
  pending.set(selector, stop);
  try {
    const answer = await fetch(address, { signal: stop.signal, headers: { accept: "*/*" } });
    if (answer.status === 401) location.reload();
    const text = await answer.text();
    const place = document.querySelector(selector);
    const box = document.createElement("template");
    box.innerHTML = text;
    const part = box.content.querySelector(selector) ?? box.content.querySelector("main section");
    if (part && place) {
      part.id = place.id;
      if (new URL(address, location.href).search !== location.search) part.dataset.from = address;
      place.replaceWith(part);
      replaced += 1;
    }
    document.dispatchEvent(new CustomEvent("part", { detail: selector }));
    return part;
  } catch (error) {
    if (error.name !== "AbortError") throw error;
    return null;
  } finally {
    if (pending.get(selector) === stop) pending.delete(selector);
  }
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-part]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button > 0) return;
  event.preventDefault();
  replacePart(link.dataset.part, link.dataset.into);
});

// Searches while a person types.
let typing;
document.addEventListener("input", (event) => {
  const form = event.target.closest?.("form[data-part]");
  if (!form) return;
  clearTimeout(typing);
  typing = setTimeout(() => submitPart(form), 200);
});
document.addEventListener("submit", (event) => {
  const form = event.target.closest?.("form[data-part]");
  if (!form) return;
  event.preventDefault();
  submitPart(form);
});

async function submitPart(form) {
  const query = new URLSearchParams(new FormData(form));
  const part = await replacePart(`${form.dataset.part}?${query}`, form.dataset.into);
  const field = part?.querySelector("form.find input[type=search]");
  field?.focus();
  field?.setSelectionRange(field.value.length, field.value.length);
}
