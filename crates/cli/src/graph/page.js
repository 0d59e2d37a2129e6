"use strict";
// Shows one node at a time: its picture, and the same as a tree. Everything is in the page.
const nodes = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const rows = [...document.querySelectorAll("tbody tr")];
const links = rows.map((row) => row.querySelector("a"));
const search = byId("search"), trouble = byId("trouble"), look = byId("look");
const picture = byId("picture"), tree = byId("tree"), details = byId("details");
let open = -1;

const make = (name, attributes = {}, ...children) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
};
const state = (line) => make("span", { class: `state ${line.state}` }, line.word);

// Only one element of a list is a stop of the Tab key. The arrow keys move among the others.
const rove = (all, chosen, move = true) => {
  for (const element of all) element.setAttribute("tabindex", element === chosen ? "0" : "-1");
  if (move && chosen) {
    chosen.focus({ preventScroll: true });
    (chosen.querySelector(":scope > .line") ?? chosen).scrollIntoView({ block: "nearest", inline: "nearest" });
  }
};
const step = (all, current, key) => {
  const at = all.indexOf(current);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[key];
  return to === undefined ? undefined : all[Math.min(Math.max(to, 0), all.length - 1)];
};

// The list of nodes.
const texts = nodes.map((node) => {
  const words = [node.name, ...node.facts];
  const walk = (line) => { words.push(line.text, ...(line.causes ?? [])); (line.below ?? []).forEach(walk); };
  node.tree.forEach(walk);
  return words.join("\n").toLowerCase();
});
const shownLinks = () => links.filter((_, index) => !rows[index].hidden);
const filter = () => {
  const wanted = search.value.trim().toLowerCase();
  rows.forEach((row, index) => {
    row.hidden = !texts[index].includes(wanted) || (trouble.checked && nodes[index].state === "ok");
  });
  const shown = shownLinks();
  byId("count").textContent = `${shown.length} of ${nodes.length} nodes`;
  if (!shown.some((link) => link.tabIndex === 0)) rove(links, shown[0], false);
  mark();
};
// Marks the boxes and lines of the open node that hold the text that is looked for.
const mark = () => {
  const wanted = search.value.trim().toLowerCase();
  const has = (text) => wanted !== "" && text.toLowerCase().includes(wanted);
  for (const box of boxes()) box.classList.toggle("match", has(box.getAttribute("aria-label")));
  for (const item of items()) item.classList.toggle("match", has(item.firstElementChild.textContent));
};
search.addEventListener("input", filter);
trouble.addEventListener("change", filter);
search.addEventListener("keydown", (event) => {
  const first = shownLinks()[0];
  if (event.key === "ArrowDown" && first) { event.preventDefault(); rove(links, first); }
  if (event.key === "Enter" && first) { event.preventDefault(); location.hash = first.hash; }
});
byId("rows").addEventListener("keydown", (event) => {
  const next = step(shownLinks(), event.target.closest("a"), event.key);
  if (next) { event.preventDefault(); rove(links, next); }
});

// The picture of the open node.
const boxes = () => [...picture.querySelectorAll(".box")];
// The name of a box begins with its visible text, so that voice control finds it, and goes on with all that has no place in it.
const label = (box, lines) => {
  const visible = [...box.querySelectorAll("text")].map((text) => text.textContent);
  const said = new Set(visible.flatMap((line) => line.split(", ")));
  return [...visible, ...lines.filter((line) => !said.has(line))].join(", ");
};
const select = (box) => {
  for (const other of boxes()) other.setAttribute("aria-selected", String(other === box));
  const [title, ...lines] = nodes[open].boxes[boxes().indexOf(box)];
  details.replaceChildren(make("h3", {}, title), make("ul", {}, ...lines.map((line) => make("li", {}, line))));
};
// The nearest box in a direction: what is aside counts double.
const nearest = (from, key) => {
  const [dx, dy] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[key] ?? [];
  if (dx === undefined) return undefined;
  const middle = (box) => { const { x, y, width, height } = box.getBoundingClientRect(); return [x + width / 2, y + height / 2]; };
  const [x, y] = middle(from);
  let best, least = Infinity;
  for (const box of boxes()) {
    const [bx, by] = middle(box);
    const ahead = (bx - x) * dx + (by - y) * dy, aside = Math.abs((bx - x) * dy) + Math.abs((by - y) * dx);
    if (box !== from && ahead > 1 && ahead + 2 * aside < least) { best = box; least = ahead + 2 * aside; }
  }
  return best;
};
picture.addEventListener("keydown", (event) => {
  const box = event.target.closest(".box");
  if (!box) return;
  const ends = { Home: boxes()[0], End: boxes().at(-1) };
  const next = ends[event.key] ?? nearest(box, event.key);
  if (next) { event.preventDefault(); rove(boxes(), next); }
  if (next || event.key.startsWith("Arrow")) event.preventDefault();
});
picture.addEventListener("focusin", (event) => { const box = event.target.closest(".box"); if (box) select(box); });
picture.addEventListener("click", (event) => { const box = event.target.closest(".box"); if (box) rove(boxes(), box); });

byId("fit").addEventListener("click", () => {
  byId("fit").setAttribute("aria-pressed", String(picture.classList.toggle("fit")));
});

// The tree of the open node.
const items = () => [...tree.querySelectorAll('[role="treeitem"]')];
const visible = () => items().filter((item) => !item.parentElement.closest('[aria-expanded="false"]'));
const expand = (item, yes) => item.hasAttribute("aria-expanded") && item.setAttribute("aria-expanded", String(yes));
const item = (line) => {
  const own = make("span", { class: "line" }, line.text);
  if (line.state) own.append("  ", state(line));
  const element = make("li", { role: "treeitem", tabindex: "-1" }, own);
  for (const cause of line.causes ?? []) element.append(make("span", { class: "cause" }, cause));
  if (line.below) {
    element.setAttribute("aria-expanded", "true");
    element.append(make("ul", { role: "group" }, ...line.below.map(item)));
  }
  return element;
};
tree.addEventListener("keydown", (event) => {
  const current = event.target.closest('[role="treeitem"]');
  let next = step(visible(), current, event.key);
  if (event.key === "ArrowRight") {
    if (current.getAttribute("aria-expanded") === "false") expand(current, true);
    else next = current.querySelector('[role="treeitem"]');
  } else if (event.key === "ArrowLeft") {
    if (current.getAttribute("aria-expanded") === "true") expand(current, false);
    else next = current.parentElement.closest('[role="treeitem"]');
  } else if (event.key === "Enter" || event.key === " ") {
    expand(current, current.getAttribute("aria-expanded") === "false");
  } else if (event.key === "*") {
    items().forEach((one) => expand(one, true));
  } else if (!next) return;
  event.preventDefault();
  if (next) rove(items(), next);
});
tree.addEventListener("click", (event) => {
  const current = event.target.closest('[role="treeitem"]');
  if (!current) return;
  expand(current, current.getAttribute("aria-expanded") === "false");
  rove(items(), current);
});
byId("expand").addEventListener("click", () => items().forEach((one) => expand(one, true)));
byId("collapse").addEventListener("click", () => {
  items().forEach((one) => expand(one, false));
  rove(items(), items().find((one) => !one.parentElement.closest('[role="treeitem"]')), false);
});

// Opens the node that the address names, so that links and the back button work.
const show = (index, move) => {
  open = index;
  const node = nodes[index];
  rows.forEach((row, at) => at === index ? row.setAttribute("aria-current", "true") : row.removeAttribute("aria-current"));
  byId("name").replaceChildren(`Network of ${node.name}: `, state(node));
  byId("facts").replaceChildren(...[...node.messages, ...node.facts].map((line) => make("li", {}, line)));
  picture.innerHTML = node.svg;
  picture.setAttribute("aria-label", `Picture of ${node.name}`);
  tree.setAttribute("aria-label", `Tree of ${node.name}`);
  tree.replaceChildren(...node.tree.map(item));
  details.replaceChildren();
  boxes().forEach((box, at) => {
    box.setAttribute("role", "option");
    box.setAttribute("aria-selected", "false");
    box.setAttribute("aria-label", label(box, node.boxes[at]));
  });
  byId("drawn").hidden = boxes().length === 0;
  byId("listed").hidden = items().length === 0;
  rove(boxes(), boxes()[0], false);
  rove(items(), items()[0], false);
  rove(links, links[index], false);
  byId("node").hidden = false;
  mark();
  if (move) byId("name").focus();
};
const follow = (move) => {
  const index = links.findIndex((link) => link.hash === location.hash);
  if (index >= 0 && index !== open) show(index, move);
  else if (index >= 0 && move) byId("name").focus();
};
window.addEventListener("hashchange", () => follow(true));

look.addEventListener("change", () => { document.documentElement.className = look.value; });
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && event.target !== search) { event.preventDefault(); search.focus(); }
  if (event.key === "Escape" && open >= 0 && byId("node").contains(event.target)) rove(links, links[open]);
});
follow(false);
if (open < 0) {
  const bad = nodes.findIndex((node) => node.state === "failed" || node.state === "drift");
  show(Math.max(bad, 0), false);
}
filter();
document.documentElement.dataset.ready = "yes";
