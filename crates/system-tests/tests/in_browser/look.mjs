// Looks at what `weft graph` has drawn, in a real browser. The tests of mod.rs run it:
//
//   node look.mjs page FILE NODES NAME     checks a page: it has NODES nodes, and NAME has drifted
//   node look.mjs large FILE NODES COUNT   checks a page of NODES nodes that differ, each with COUNT interfaces
//   node look.mjs plan FILE NAME           checks that the changes of NAME are drawn
//   node look.mjs hostile FILE             checks that no name of the page runs as a script
//   node look.mjs mermaid FILE             reads and draws a flowchart with Mermaid itself
//
// WEFT_BROWSER is the folder that scripts/browser prints. The script prints figures as JSON. An error ends it with 1.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const folder = process.env.WEFT_BROWSER;
assert(folder, "WEFT_BROWSER is not set: run scripts/test-pages");
const { chromium } = createRequire(import.meta.url)(`${folder}/playwright-core`);
const axe = readFileSync(`${folder}/axe.min.js`, "utf8");
const [task, file, ...rest] = process.argv.slice(2);

// In a container, root has no namespaces of its own, which the browser's sandbox needs.
const browser = await chromium.launch({ executablePath: `${folder}/chromium`, args: ["--no-sandbox", "--disable-gpu"] });
// Opens the file. Every error, dialog and request of the page is remembered.
async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, ...options });
  context.setDefaultTimeout(120_000);
  const page = await context.newPage();
  const noise = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && noise.push(message.text()));
  page.on("pageerror", (error) => noise.push(String(error)));
  page.on("dialog", (dialog) => { noise.push(`dialog ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => request.isNavigationRequest() || noise.push(`request ${request.url()}`));
  const start = performance.now();
  await page.goto(pathToFileURL(resolve(file)).href);
  if (options.javaScriptEnabled !== false) await page.waitForSelector("html[data-ready]");
  return { page, noise, milliseconds: Math.round(performance.now() - start) };
}

// The mistakes that axe finds, in words.
async function mistakes(page) {
  // The policy of the page forbids other scripts. The protocol of the browser may add one.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document));
  return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map((node) => node.html.slice(0, 160)).slice(0, 3).join(" | ")}`);
}

const focused = (page) => page.evaluate(() => {
  const element = document.activeElement;
  return { id: element.id, role: element.getAttribute("role"), text: element.getAttribute("aria-label") ?? element.textContent };
});

async function press(page, ...keys) {
  for (const key of keys) await page.keyboard.press(key);
  return focused(page);
}

// The window sizes that nothing may be too wide for.
const WINDOWS = [{ width: 1280, height: 720 }, { width: 1920, height: 1080 }];

// Everything that is cut off or that one must scroll sideways for, in words.
const clipped = (page) => page.evaluate(() => {
  const found = [];
  const isIn = (inner, outer) => inner.left >= outer.left - 1 && inner.right <= outer.right + 1 && inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;
  const name = (element) => element.outerHTML.slice(0, 120);
  const pane = document.querySelector("#picture");
  for (const element of document.querySelectorAll("body, body *")) {
    if (!element.checkVisibility() || element.closest("svg")) continue;
    const { left, right, width } = element.getBoundingClientRect();
    if (width > 0 && (left < -1 || right > innerWidth + 1)) found.push(`outside of the window: ${name(element)}`);
    if (element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0 && element !== pane) found.push(`wider than its place: ${name(element)}`);
  }
  for (const box of pane.checkVisibility() ? pane.querySelectorAll(".box") : []) {
    const frame = box.querySelector("rect").getBoundingClientRect();
    if (!isIn(frame, pane.getBoundingClientRect())) found.push(`outside of the picture: ${name(box)}`);
    for (const text of box.querySelectorAll("text")) {
      if (!isIn(text.getBoundingClientRect(), frame)) found.push(`outside of its box: ${text.textContent}`);
    }
  }
  return found;
});

// Looks at the page in each window, after it was resized.
async function fits(page) {
  for (const size of WINDOWS) {
    await page.setViewportSize(size);
    await page.waitForFunction((width) => innerWidth === width, size.width);
    // The picture follows the window in the next frame.
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    assert.deepEqual(await clipped(page), [], `at ${size.width} px`);
  }
}

const box = (page, title) => page.locator("#picture .box", { hasText: title }).first();

// The part of the picture that is in its pane, and its scale.
const view = (page) => page.locator("#picture svg").getAttribute("viewBox");

// Opens a node by the search, and waits until it is there.
async function openNode(page, name) {
  await page.fill("#search", name);
  await page.press("#search", "Enter");
  await page.waitForFunction(() => document.activeElement.id === "name");
  await page.fill("#search", "");
}

// The page begins with all nodes. A group of equal nodes is one card until it is opened.
async function overview(page, count) {
  assert.equal(await page.locator("#node").isVisible(), false, "the overview is first");
  assert.equal(await page.locator("[data-node]").count(), count);
  await fits(page);
  const groups = page.locator(".group:has(details)");
  const folded = await groups.count();
  const single = await page.locator("a.card").count();
  assert.equal(folded, count > 3 ? 3 : 0, "equal nodes are one card");
  assert.equal(await page.locator("[data-node]:visible").count(), single);
  if (folded === 0) return;
  const group = groups.first();
  const names = group.locator(".name");
  const size = Number((await group.locator(".who").textContent()).match(/(\d+) equal nodes/)[1]);
  assert.equal(await names.count(), size);
  await group.locator("summary").click();
  assert.equal(await names.locator("visible=true").count(), size, "a click unfolds it");
  await fits(page);
  await group.locator("summary").press("Enter");
  assert.equal(await names.locator("visible=true").count(), 0, "Enter folds it");
}

// The search by name, address, VLAN and policy, and the filters.
async function find(page, count, name) {
  const shown = () => page.locator("#groups > li:visible").count();
  assert.equal((await press(page, "/")).id, "search");
  for (const [word, nodes] of [[name, 1], ["192.0.2.12/24", Math.ceil((count - 1) / 3)], ["VLAN 200", Math.ceil(count / 3) + Math.ceil((count - 1) / 3)], ["policy tenants", Math.ceil(count / 3)], ["no such thing", 0]]) {
    await page.fill("#search", word);
    assert.match(await page.locator("#count").textContent(), new RegExp(`^${nodes} of ${count} nodes`), word);
    assert.equal(await shown() > 0, nodes > 0, word);
  }
  await page.fill("#search", "VLAN 200");
  await page.locator("#search").focus();
  const card = await press(page, "ArrowDown");
  assert.match(card.text, /failed/, "the arrow key goes to the first card: the worst state comes first");
  await page.fill("#search", "");
  await page.locator('#filters input[value="failed"]').check();
  for (const text of await page.locator(".card:visible").allTextContents()) assert.match(text, /! failed/);
  await page.locator('#filters input[value=""]').check();
  for (const word of await page.locator(".state:visible").allTextContents()) assert.match(word, /^ ?(all|[=…~!?] \w)/, "a colour has a word");
}

// Fit, zoom, pan, and the details of a box.
async function picture(page) {
  await fits(page);
  const fitted = await view(page);
  const pane = await page.locator("#picture").boundingBox();
  const middle = [pane.x + pane.width / 2, pane.y + 12];
  await page.mouse.move(...middle);
  await page.mouse.wheel(0, -400);
  await page.waitForFunction((before) => document.querySelector("#picture svg").getAttribute("viewBox") !== before, fitted);
  const zoomed = await view(page);
  assert(Number(zoomed.split(" ")[2]) < Number(fitted.split(" ")[2]), "the wheel zooms in");
  await page.mouse.down();
  await page.mouse.move(middle[0] + 60, middle[1] + 40, { steps: 3 });
  await page.mouse.up();
  const panned = await view(page);
  assert.notEqual(panned, zoomed, "a drag pans");
  assert.equal(panned.split(" ")[2], zoomed.split(" ")[2], "and keeps the scale");
  await page.locator("#fit").click();
  assert.equal(await view(page), fitted);
  await page.locator("#in").click();
  assert.notEqual(await view(page), fitted);
  await page.locator("#in").press("0");
  assert.equal(await view(page), fitted, "the key 0 fits the picture");

  for (const [title, wanted] of [
    ["eth0 (ethernet)", ["MTU 1500", "192.0.2.11/24", "switch leaf-1 port Ethernet1/1", "routes 0.0.0.0/0 via 192.0.2.1, ::/0 via 2001:db8::1"]],
    ["bond0 (bond)", ["802.3ad", "ports eth1, eth2", "below bond0.100, bond0.200", "policy bond0"]],
    ["bond0.200 (vlan)", ["VLAN 200", "on bond0", "policy storage", "~ drift", "mtu: 1500 should be 9000"]],
    ["br1 (linux-bridge)", ["port bond0.100", "2 pod interfaces"]],
  ]) {
    await box(page, title).hover();
    const lines = await page.locator("#tip").locator("strong, li").allTextContents();
    for (const line of [title, ...wanted]) assert(lines.includes(line), `${line} is missing in ${lines.join(" / ")}`);
    assert.deepEqual(await clipped(page), [], "the details are in the window");
  }
  await page.mouse.move(pane.x + 2, pane.y + 2);
  assert.equal(await page.locator("#tip").isVisible(), false);
}

// The picture and the tree by the keyboard, after the heading of a node.
async function byKeyboard(page, name) {
  await page.locator("#as-tree").focus();
  const first = await press(page, "Tab");
  assert.equal(first.role, "option");
  const seen = new Set([first.text]);
  for (const key of ["End", "Home", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowUp", "ArrowLeft"]) {
    const now = await press(page, key);
    assert.equal(now.role, "option", key);
    seen.add(now.text);
    assert.equal(await page.locator('.box[aria-selected="true"]').getAttribute("aria-label"), now.text);
    assert(now.text.startsWith(await page.locator("#tip strong").textContent()), "the details follow");
  }
  assert(seen.size >= 5, `arrow keys reach several boxes: ${[...seen].join(" / ")}`);
  await press(page, "Escape");
  assert.equal(await page.locator("#tip").isVisible(), false, "Escape closes the details");

  // The tree: it opens and closes, and has all that the picture has.
  if (await page.locator("#listed").isHidden()) await page.locator("#as-tree").press("Enter");
  await page.locator("#collapse").focus();
  const item = await press(page, "Tab");
  assert.equal(item.role, "treeitem");
  const visible = () => page.locator('[role="treeitem"]:visible').count();
  const all = await visible();
  await press(page, "ArrowLeft");
  assert(await visible() < all, "ArrowLeft closes a branch");
  await press(page, "ArrowRight");
  assert.equal(await visible(), all);
  const child = await press(page, "ArrowRight");
  assert.notEqual(child.text, item.text);
  assert.equal((await press(page, "ArrowLeft")).text, item.text);
  await page.locator("#collapse").click();
  assert(await visible() < all);
  await page.locator("#expand").click();
  assert.equal(await visible(), all);
  await fits(page);

  // A screen reader gets names, roles and words, not colours.
  const spoken = await page.locator("main").ariaSnapshot();
  assert.match(spoken, /option "bond0\.200 \(vlan\).*~ drift.*, mtu: 1500 should be 9000"/);
  assert.match(spoken, /treeitem "bond0\.200 \(vlan\).*~ drift mtu: 1500 should be 9000"/);
  assert.match(spoken, /option "switch leaf-1/);

  // The search marks the boxes of the open node, and goes to them.
  await page.fill("#search", "VLAN 200");
  assert.match(await page.locator("#count").textContent(), /^1 of \d+ boxes here/);
  assert.match((await press(page, "Enter")).text, /^bond0\.200/);
  await page.fill("#search", "");

  // Escape goes back to all nodes.
  await page.locator("#expand").focus();
  await press(page, "Escape");
  await page.waitForFunction(() => document.querySelector("#node").hidden);
  const back = await focused(page);
  assert(back.text.includes(name) || back.text.includes("equal nodes"), back.text);
}

async function page(count, name) {
  const { page, noise, milliseconds } = await open();
  await overview(page, count);
  await find(page, count, name);
  const look = async () => {
    const found = { light: await mistakes(page) };
    await page.emulateMedia({ colorScheme: "dark" });
    found.dark = await mistakes(page);
    await page.emulateMedia({ colorScheme: "light" });
    assert.deepEqual(found, { light: [], dark: [] });
  };
  await look();

  const start = performance.now();
  await openNode(page, name);
  const opening = Math.round(performance.now() - start);
  assert.match(await page.locator("#name").textContent(), new RegExp(`${name}: ~ drift`));
  // Only the open node is drawn, however many there are.
  assert.equal(await page.locator("main svg:visible").count(), 1);
  const elements = await page.locator("*").count();
  await picture(page);
  await look();

  // Light and dark, by the system and by choice.
  const ground = () => page.evaluate(() => getComputedStyle(document.querySelector("#picture svg")).backgroundColor);
  const light = await ground();
  await page.emulateMedia({ colorScheme: "dark" });
  assert.notEqual(await ground(), light);
  await page.selectOption("#look", "light");
  assert.equal(await ground(), light);
  await byKeyboard(page, name);
  assert.deepEqual(noise, [], "the page is silent, and requests nothing");

  // Without scripts, the overview is there.
  const plain = await open({ javaScriptEnabled: false });
  assert.equal(await plain.page.locator("[data-node]").count(), count);
  return { nodes: count, elements, loaded: milliseconds, opened: opening };
}

// Every node is a card of its own, and has many interfaces.
async function large(count, interfaces) {
  const { page, noise, milliseconds } = await open();
  assert.equal(await page.locator("a.card").count(), count);
  await fits(page);
  const start = performance.now();
  await openNode(page, "worker-");
  const opening = Math.round(performance.now() - start);
  assert.equal(await page.locator("#picture .interface").count(), interfaces);
  await fits(page);
  // A picture as a single column would be too small to read.
  const scale = await page.evaluate(() => document.querySelector("#picture").clientWidth / document.querySelector("#picture svg").viewBox.baseVal.width);
  assert(scale > 0.5, `the picture is drawn at ${scale}`);
  const typing = performance.now();
  await page.fill("#search", "vlan 120");
  const searching = Math.round(performance.now() - typing);
  assert.match(await page.locator("#count").textContent(), /^[1-9]\d* of \d+ boxes here/);
  assert.deepEqual(noise, []);
  return { nodes: count, interfaces, loaded: milliseconds, opened: opening, searched: searching, scale };
}

// The changes of a policy that is drawn as if it were applied.
async function plan(name) {
  const { page, noise } = await open();
  assert.match(await page.locator("#applied").textContent(), /as if .* were applied/);
  await page.locator('#filters input[value="changes"]').check();
  assert.equal(await page.locator("#groups > li:visible").count(), 1);
  assert.match(await page.locator(".card:visible").textContent(), /\+ \d will be added, … \d will change, - \d will be removed/);
  await page.locator(".card:visible").click();
  await page.waitForFunction(() => document.activeElement.id === "name");
  assert.match(await page.locator("#name").textContent(), new RegExp(name));
  const borders = new Set();
  for (const [title, state, words] of [
    ["br9 (linux-bridge)", "added", ["+ will be added", "wanted: up, MTU 1400", "is missing"]],
    ["eth0 (ethernet)", "changed", ["… will change", "mtu: 1500 should be 1400"]],
    ["bond0.200 (vlan)", "removed", ["- will be removed", "should not be there"]],
  ]) {
    const part = box(page, title);
    assert.match(await part.getAttribute("class"), new RegExp(`\\b${state}\\b`));
    assert((await part.textContent()).includes(words[0]), `${title} has no word next to its colour`);
    await part.hover();
    const lines = await page.locator("#tip li").allTextContents();
    for (const word of words) assert(lines.includes(word), `${word} is missing in ${lines.join(" / ")}`);
    borders.add(await part.locator("rect").evaluate((rect) => { const { strokeDasharray, strokeWidth } = getComputedStyle(rect); return `${strokeDasharray} ${strokeWidth}`; }));
    assert.equal(await page.locator(`#legend .${state}`).count(), 1, `${state} is in the legend`);
  }
  assert.equal(borders.size, 3, "the borders differ, not only the colours");
  await fits(page);
  assert.deepEqual(await mistakes(page), []);
  assert.deepEqual(noise, []);
  return { plan: name };
}

async function hostile() {
  const { page, noise } = await open();
  const text = await page.locator("#tree").textContent();
  assert(text.includes("<script>alert(1)</script>"), text);
  assert.equal(await page.locator("#picture script, #tree script, #groups script").count(), 0);
  assert.deepEqual(noise, []);
  return { hostile: "stays text" };
}

async function mermaid() {
  const flowchart = readFileSync(file, "utf8");
  const page = await (await browser.newContext()).newPage();
  await page.setContent("<!DOCTYPE html><title>Flowchart</title>");
  await page.addScriptTag({ path: `${folder}/mermaid.min.js` });
  const drawn = await page.evaluate(async (text) => {
    globalThis.mermaid.initialize({ startOnLoad: false });
    const { diagramType } = await globalThis.mermaid.parse(text);
    const { svg } = await globalThis.mermaid.render("drawn", text);
    document.body.innerHTML = svg;
    const texts = [...document.querySelectorAll(".nodeLabel")].map((label) => label.innerText);
    return { diagramType, texts, scripts: document.body.querySelectorAll("script").length };
  }, flowchart);
  assert.match(drawn.diagramType, /flowchart/);
  assert.equal(drawn.scripts, 0);
  return { texts: drawn.texts };
}

try {
  const figures = await { page: () => page(Number(rest[0]), rest[1]), large: () => large(Number(rest[0]), Number(rest[1])), plan: () => plan(rest[0]), hostile, mermaid }[task]();
  console.log(JSON.stringify(figures));
} finally {
  await browser.close();
}
