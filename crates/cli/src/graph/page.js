// The overview of all nodes, the search, and the tree of the open node. Everything is in the page.
const nodes = JSON.parse(byId("data").textContent);
const search = byId("search"), theme = byId("look"), tree = byId("tree"), listed = byId("listed"), groups = byId("groups");
const links = [];
for (const link of groups.querySelectorAll("[data-node]")) links[Number(link.dataset.node)] = link;
let open = -1;

const state = (line) => make("span", { class: `state ${line.state}` }, line.word);

// Only one element of a list is a stop of the Tab key. The arrow keys move among the others.
const rove = (all, chosen, move = true) => {
  for (const element of all) element.setAttribute("tabindex", element === chosen ? "0" : "-1");
  if (move && chosen) {
    chosen.focus({ preventScroll: true });
    chosen.querySelector(":scope > .line")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
};
const step = (all, current, key) => {
  const at = all.indexOf(current);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[key];
  return to === undefined ? undefined : all[Math.min(Math.max(to, 0), all.length - 1)];
};
// The nearest element in a direction: what is aside counts double.
const nearest = (all, from, key) => {
  const [dx, dy] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[key] ?? [];
  if (dx === undefined) return undefined;
  const middle = (element) => { const { x, y, width, height } = element.getBoundingClientRect(); return [x + width / 2, y + height / 2]; };
  const [x, y] = middle(from);
  let best, least = Infinity;
  for (const element of all) {
    const [ex, ey] = middle(element);
    const ahead = (ex - x) * dx + (ey - y) * dy, aside = Math.abs((ex - x) * dy) + Math.abs((ey - y) * dx);
    if (element !== from && ahead > 1 && ahead + 2 * aside < least) { best = element; least = ahead + 2 * aside; }
  }
  return best;
};

// The overview: the search and the filter hide nodes, and open the groups of which they leave a part.
const lines = nodes.map((node) => {
  const all = [node.name, ...node.facts, ...node.messages];
  const walk = (line) => { all.push(line.text, ...(line.causes ?? [])); (line.below ?? []).forEach(walk); };
  node.tree.forEach(walk);
  return all.map((text) => [text.toLowerCase(), text]);
});
const wanted = () => search.value.trim().toLowerCase();
const isShown = (link) => !link.closest("li[hidden]");
const filter = () => {
  const word = wanted(), choice = document.querySelector('[name="show"]:checked').value;
  for (const group of groups.children) {
    const isChosen = choice === "" || group.dataset.show.split(" ").includes(choice);
    const own = [...group.querySelectorAll("[data-node]")];
    let count = 0;
    for (const link of own) {
      const hit = isChosen && lines[Number(link.dataset.node)].find(([low]) => low.includes(word));
      (link.closest(".names > li") ?? group).hidden = !hit;
      link.querySelector(".hit")?.remove();
      // The name is there already.
      if (hit && word !== "" && hit[1] !== nodes[Number(link.dataset.node)].name) link.append(" ", make("span", { class: "hit" }, hit[1]));
      if (hit) count += 1;
    }
    group.hidden = count === 0;
    const folder = group.querySelector("details");
    if (folder && word !== "" && count > 0 && count < own.length) { folder.dataset.found = "yes"; folder.open = true; }
    if (folder?.dataset.found && word === "") { delete folder.dataset.found; folder.open = false; }
  }
  mark();
};
// Marks the boxes and lines of the open node that hold the text that is looked for.
const mark = () => {
  const word = wanted();
  const has = (text) => word !== "" && text.toLowerCase().includes(word);
  for (const box of boxes()) box.classList.toggle("match", has(box.getAttribute("aria-label")));
  for (const item of items()) item.classList.toggle("match", has(item.firstElementChild.textContent));
  const found = boxes().filter((box) => box.matches(".match"));
  picture.classList.toggle("searching", found.length > 0);
  const places = open >= 0 && word !== "" ? `${found.length} of ${boxes().length} boxes here, ` : "";
  byId("count").textContent = `${places}${links.filter(isShown).length} of ${nodes.length} nodes`;
  return found;
};
const cards = () => [...groups.querySelectorAll(".card, .name")].filter((card) => card.checkVisibility());
search.addEventListener("input", filter);
byId("filters").addEventListener("change", filter);
search.addEventListener("keydown", (event) => {
  const found = open >= 0 ? mark() : [];
  if (event.key === "ArrowDown" && open < 0) { event.preventDefault(); cards()[0]?.focus(); }
  if (event.key !== "Enter") return;
  event.preventDefault();
  const first = links.find(isShown);
  // The next place in the picture, or the first node.
  if (found.length) rove(boxes(), found[(found.findIndex((box) => box.matches('[aria-selected="true"]')) + 1) % found.length]);
  else if (open >= 0) location.hash = "";
  else if (first) location.hash = first.hash;
});
groups.addEventListener("keydown", (event) => {
  const all = cards();
  const next = { Home: all[0], End: all.at(-1) }[event.key] ?? nearest(all, event.target, event.key);
  if (next) { event.preventDefault(); next.focus(); }
});

// The picture of the open node.
picture.addEventListener("keydown", (event) => {
  const box = event.target.closest(".box");
  if (!box) return;
  const next = { Home: boxes()[0], End: boxes().at(-1) }[event.key] ?? nearest(boxes(), box, event.key);
  if (next) rove(boxes(), next);
  if (next || event.key.startsWith("Arrow")) event.preventDefault();
});
picture.addEventListener("click", (event) => { const box = event.target.closest(".box"); if (box) rove(boxes(), box); });

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
const showTree = (yes) => {
  listed.hidden = !yes;
  byId("as-tree").setAttribute("aria-expanded", String(yes));
};
byId("as-tree").addEventListener("click", () => showTree(listed.hidden));

// Opens the node that the address names, or the overview, so that links and the back button work.
const show = (index) => {
  open = index;
  byId("overview").hidden = index >= 0;
  byId("node").hidden = index < 0;
  hideDetails();
  const node = nodes[index];
  if (!node) return;
  byId("name").replaceChildren(`Network of ${node.name}: `, state(node));
  byId("facts").replaceChildren(...[...node.messages, ...node.facts].map((line) => make("li", {}, line)));
  picture.setAttribute("aria-label", `Picture of ${node.name}`);
  tree.setAttribute("aria-label", `Tree of ${node.name}`);
  tree.replaceChildren(...node.tree.map(item));
  draw(node);
  rove(items(), items()[0], false);
  rove(boxes(), boxes()[0], false);
};
const follow = (move) => {
  const before = links[open], index = links.findIndex((link) => location.hash !== "" && link.hash === location.hash);
  if (index !== open) show(index);
  mark();
  if (!move) return;
  if (index >= 0) byId("name").focus();
  else (before?.checkVisibility() ? before : before?.closest("details")?.firstElementChild ?? search).focus();
};
addEventListener("hashchange", () => follow(true));

theme.addEventListener("change", () => { document.documentElement.className = theme.value; });
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && event.target !== search) { event.preventDefault(); search.focus(); }
  if (event.key !== "Escape" || event.target === search || open < 0) return;
  if (tip.hidden) location.hash = "";
  else hideDetails();
});
showTree(innerWidth >= 1800);
filter();
if (nodes.length === 1 && location.hash === "") location.replace(links[0].hash);
follow(false);
document.documentElement.dataset.ready = "yes";
