// Runs before the first paint: a dark page must not flash.
"use strict";
{
  const chosen = localStorage.getItem("theme");
  const isDark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
}
