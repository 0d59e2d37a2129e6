// Looks at what `weft graph` has drawn, in a real browser. The test browser.rs runs it:
//
//   node look.mjs page FILE NODES NAME     checks a page: it has NODES nodes, and NAME has drifted
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

async function page(count, name) {
  const { page, noise, milliseconds } = await open();
  assert.equal(await page.locator("tbody tr").count(), count);

  // The search finds the node, and the keyboard opens it.
  assert.equal((await press(page, "/")).id, "search");
  await page.keyboard.type(name);
  assert.equal(await page.locator("tbody tr:visible").count(), 1);
  assert.match(await page.locator("#count").textContent(), new RegExp(`^1 of ${count} nodes`));
  assert.equal((await press(page, "ArrowDown")).text, name);
  const start = performance.now();
  await press(page, "Enter");
  // A change of the address is an event of its own.
  await page.waitForFunction(() => document.activeElement.id === "name");
  const opening = Math.round(performance.now() - start);
  assert.match(await page.locator("#name").textContent(), new RegExp(`${name}: ~ drift`));
  await page.fill("#search", "bond0.200");
  assert(await page.locator(".box.match").count() > 0, "boxes that match are marked");
  await page.fill("#search", "");

  // Only the open node is drawn, however many there are.
  assert.equal(await page.locator("svg").count(), 1);
  const elements = await page.locator("*").count();

  // The picture: arrow keys go from box to box, and the details follow.
  await page.locator("#name").focus();
  assert.equal((await press(page, "Tab")).id, "fit");
  const first = await press(page, "Tab");
  assert.equal(first.role, "option");
  const seen = new Set([first.text]);
  for (const key of ["End", "Home", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowUp", "ArrowLeft"]) {
    const now = await press(page, key);
    assert.equal(now.role, "option", key);
    seen.add(now.text);
    assert.equal(await page.locator('.box[aria-selected="true"]').getAttribute("aria-label"), now.text);
    assert(now.text.startsWith(await page.locator("#details h3").textContent()));
  }
  assert(seen.size >= 5, `arrow keys reach several boxes: ${[...seen].join(" / ")}`);

  // The tree: it opens and closes, and has all that the picture has.
  let item = await press(page, "Tab", "Tab", "Tab");
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
  assert.equal((await press(page, "End", "Escape")).text, name);

  // A screen reader gets names, roles and words, not colours.
  const spoken = await page.locator("main").ariaSnapshot();
  assert.match(spoken, /option "bond0\.200 \(vlan\).*~ drift, mtu: 1500 should be 9000"/);
  assert.match(spoken, /treeitem "bond0\.200 \(vlan\).*~ drift mtu: 1500 should be 9000"/);
  assert.match(spoken, /option "switch leaf-1"/);
  for (const row of await page.locator("tbody .state").allTextContents()) assert.match(row, /^[=…~!?] \w/);

  // Light and dark, by the system and by choice.
  const ground = () => page.evaluate(() => getComputedStyle(document.querySelector("svg.weft")).backgroundColor);
  const found = { light: await mistakes(page) };
  const light = await ground();
  await page.emulateMedia({ colorScheme: "dark" });
  assert.notEqual(await ground(), light);
  found.dark = await mistakes(page);
  assert.deepEqual(found, { light: [], dark: [] });
  await page.selectOption("#look", "light");
  assert.equal(await ground(), light);

  // The filter hides nodes without trouble, and the address opens one.
  await page.check("#trouble");
  assert.equal(await page.locator("tbody tr:visible .state.ok").count(), 0);
  assert.deepEqual(noise, [], "the page is silent, and requests nothing");

  // Without scripts, the list is there.
  const plain = await open({ javaScriptEnabled: false });
  assert.equal(await plain.page.locator("tbody tr").count(), count);
  return { nodes: count, elements, loaded: milliseconds, opened: opening };
}

async function hostile() {
  const { page, noise } = await open();
  const text = await page.locator("#tree").textContent();
  assert(text.includes("<script>alert(1)</script>"), text);
  assert.equal(await page.locator("#picture script, #tree script, table script").count(), 0);
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
  const figures = await { page: () => page(Number(rest[0]), rest[1]), hostile, mermaid }[task]();
  console.log(JSON.stringify(figures));
} finally {
  await browser.close();
}
