// Uses the site as people do, in a real browser, at the width of a phone and of a desktop. scripts/docs runs it:
//
//   node look.mjs SITE
//
// WEFT_BROWSER is the folder that scripts/browser prints. The script prints a line with figures. An error ends it with 1.
import assert from "node:assert/strict";
import { readFileSync, readdirSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { extname, join, relative, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const folder = process.env.WEFT_BROWSER;
assert(folder, "WEFT_BROWSER is not set: run scripts/docs");
const { chromium } = createRequire(import.meta.url)(`${folder}/playwright-core`);
const axe = readFileSync(`${folder}/axe.min.js`, "utf8");
const site = resolve(process.argv[2]);
const pages = readdirSync(site, { recursive: true })
  .filter((name) => name.endsWith(".html") && name !== "toc.html") // the list of pages for browsers without scripts
  .sort();

// Serves the site until this process ends.
const types = { ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".png": "image/png", ".woff2": "font/woff2" };
const server = createServer((request, response) => {
  const path = join(site, decodeURIComponent(new URL(request.url, "http://localhost").pathname));
  const file = path.startsWith(site) && statSync(path, { throwIfNoEntry: false })?.isFile();
  response.writeHead(file ? 200 : 404, { "content-type": types[extname(path)] ?? "text/plain" });
  response.end(file ? readFileSync(path) : "");
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const origin = `http://127.0.0.1:${server.address().port}`;

// In a container, root has no namespaces of its own, which the browser's sandbox needs.
const browser = await chromium.launch({ executablePath: `${folder}/chromium`, args: ["--no-sandbox", "--disable-gpu"] });
const wrong = [];

// A page of a visitor. Errors, failed requests and requests to other hosts are findings.
async function visitor(width, colorScheme) {
  const context = await browser.newContext({ viewport: { width, height: 844 }, colorScheme });
  context.setDefaultTimeout(120_000);
  const page = await context.newPage();
  const note = (text) => wrong.push(`${width} ${colorScheme} ${page.url()}: ${text}`);
  page.on("console", (message) => message.type() === "error" && note(message.text()));
  page.on("pageerror", (error) => note(String(error)));
  page.on("request", (request) => [origin, "data:", "file:"].some((start) => request.url().startsWith(start)) || note(`requests ${request.url()}`));
  page.on("response", (response) => response.ok() || response.status() === 304 || note(`${response.status()} for ${response.url()}`));
  return { page, note };
}

// The serious mistakes that axe finds, in words.
async function mistakes(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document));
  return violations
    .filter(({ impact }) => ["serious", "critical"].includes(impact))
    .map(({ id, nodes }) => `${id}: ${nodes.length}: ${nodes.map((node) => `${node.html.slice(0, 120)} ${node.any[0]?.message ?? ""}`).slice(0, 2).join(" | ")}`);
}

// Opens pages, and looks at their form.
async function look(width, colorScheme, names) {
  const { page, note } = await visitor(width, colorScheme);
  for (const name of names) {
    await page.goto(`${origin}/${name}`);
    await page.waitForSelector("#mdbook-sidebar a.active", { state: "attached" });
    const found = await page.evaluate(() => {
      // mdBook hides the part of a page that is too wide. Tables and code scroll by themselves.
      const inside = (element) => element.closest(".table-wrapper, pre");
      const wide = [...document.querySelectorAll("main *")].filter((element) => {
        const { right, width } = (inside(element) ?? element).getBoundingClientRect();
        return width > 0 && right > innerWidth;
      });
      return {
        headings: document.querySelectorAll("main h1").length,
        over: document.documentElement.scrollWidth - document.documentElement.clientWidth,
        wide: wide.map((element) => element.outerHTML.slice(0, 120)).slice(0, 2),
        text: document.querySelector("main").innerText.length,
      };
    });
    if (found.headings !== 1) note(`${found.headings} headings of the first level`);
    if (found.over > 0) note(`the page is ${found.over} px wider than the window`);
    for (const element of found.wide) note(`wider than the window: ${element}`);
    if (found.text < 200) note("the page is empty");
    for (const mistake of await mistakes(page)) note(mistake);
  }
  await page.context().close();
}

// Searches by keyboard from a page, and opens the result whose page has this name.
async function search(page, start, word, name) {
  await page.goto(start);
  await page.waitForSelector("#mdbook-sidebar a.active", { state: "attached" });
  await page.keyboard.press("/");
  await page.waitForFunction(() => document.activeElement.id === "mdbook-searchbar");
  await page.keyboard.type(word);
  const result = page.locator(`#mdbook-searchresults a[href*="${name}"]`).first();
  await result.waitFor();
  const results = await page.locator("#mdbook-searchresults a").count();
  await result.focus();
  await page.keyboard.press("Enter");
  await page.waitForURL((url) => url.pathname.includes(name));
  assert.match((await page.locator("main").innerText()).toLowerCase(), new RegExp(word));
  return results;
}

async function use(width) {
  const { page } = await visitor(width, "light");
  const index = `${origin}/index.html`;
  const found = await search(page, index, "bridge", "docs/tutorials/addons");
  assert(found >= 10, `only ${found} results for "bridge"`);
  await search(page, `${origin}/docs/install.html`, "maxunavailable", "docs/node-network");
  await search(page, index, "finalizer", "docs/troubleshooting");

  // From the first page to the last by the links, and back by the keyboard.
  await page.goto(index);
  const seen = new Set([page.url()]);
  const next = () => page.locator('a[rel~="next"]:visible').first();
  while (await next().count()) {
    const before = page.url();
    await next().click();
    await page.waitForURL((url) => url.href !== before);
    assert(!seen.has(page.url()), `the links go in a circle: ${page.url()}`);
    seen.add(page.url());
  }
  assert.equal(seen.size, pages.length, "each page is on the way from the first to the last");
  const last = page.url();
  await page.keyboard.press("ArrowLeft");
  await page.waitForURL((url) => url.href !== last);
  assert(seen.has(page.url()));

  // The list of pages opens and leads to a page.
  await page.goto(index);
  const link = page.locator('#mdbook-sidebar a[href$="docs/troubleshooting.html"]');
  const list = await page.locator("#mdbook-sidebar").boundingBox();
  if (!list || list.x < 0) await page.locator("#mdbook-sidebar-toggle").click();
  await link.click();
  await page.waitForURL((url) => url.pathname.endsWith("docs/troubleshooting.html"));
  await page.context().close();
  return found;
}

// The folder works without a server, too: pages and search.
async function withoutServer() {
  const { page } = await visitor(1280, "light");
  await search(page, pathToFileURL(join(site, "index.html")).href, "bridge", "docs/tutorials/addons");
  await page.context().close();
}

const start = performance.now();
try {
  await Promise.all([look(390, "light", pages), look(1280, "dark", pages)]);
  // The colours do not depend on the width, and the list of pages is open only on a desktop.
  const some = ["index.html", "examples/index.html", "docs/status.html", "docs/tutorials/addons.html"];
  await Promise.all([look(390, "dark", some), look(1280, "light", some)]);
  const found = [await use(390), await use(1280)];
  await withoutServer();
  assert.deepEqual(wrong, []);
  const seconds = Math.round((performance.now() - start) / 1000);
  console.log(`${pages.length} pages at 390 and 1280 px, in light and in dark: no finding. "bridge" has ${found.join(" and ")} results. ${seconds} s`);
} catch (error) {
  for (const text of wrong) console.error(text);
  throw error;
} finally {
  await browser.close();
  server.close();
}
