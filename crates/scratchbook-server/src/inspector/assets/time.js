// Times of day in the time zone of the reader.
"use strict";

function localTimes(within) {
  for (const time of within.querySelectorAll("time:not([data-local])")) {
    const date = new Date(time.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    time.dataset.local = "";
    time.title = date.toLocaleString();
    if (/^\d\d:\d\d:\d\d$/.test(time.textContent)) time.textContent = date.toTimeString().slice(0, 8);
  }
}

localTimes(document);
document.addEventListener("part", () => localTimes(document));
