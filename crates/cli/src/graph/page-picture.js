"use strict";
// The picture of the open node: it fits its pane at first and after a resize, and people zoom, pan, and see the details of a box.
const byId = (id) => document.getElementById(id);
const picture = byId("picture"), tip = byId("tip");
const MOST_LINES = 24; // of the details. The tree has all of them
const LARGEST = 1.4, CLOSEST = 5; // pixels for each unit of a picture: to fit it, and by zooming

const make = (name, attributes = {}, ...children) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
};
const boxes = () => [...picture.querySelectorAll(".box")];
let texts = []; // heading and details of each box
let whole = { width: 1, height: 1 };
let view = { x: 0, y: 0, scale: 1 }; // the corner of the part that is in the pane
let isFitted = true;

const look = () => {
  const { clientWidth: width, clientHeight: height } = picture;
  picture.querySelector("svg")?.setAttribute("viewBox", [view.x, view.y, width / view.scale, height / view.scale].join(" "));
  hideDetails();
};
const fit = () => {
  const { clientWidth: width, clientHeight: height } = picture;
  if (!width || !height) return;
  const scale = Math.min(width / whole.width, height / whole.height, LARGEST);
  view = { scale, x: (whole.width - width / scale) / 2, y: (whole.height - height / scale) / 2 };
  isFitted = true;
  look();
};
// Zooms around a point of the pane.
const zoom = (factor, x = picture.clientWidth / 2, y = picture.clientHeight / 2) => {
  const scale = Math.min(Math.max(view.scale * factor, 0.05), CLOSEST);
  view = { scale, x: view.x + x / view.scale - x / scale, y: view.y + y / view.scale - y / scale };
  isFitted = false;
  look();
};
const pan = (dx, dy) => {
  view = { ...view, x: view.x - dx / view.scale, y: view.y - dy / view.scale };
  isFitted = false;
  look();
};
new ResizeObserver(() => isFitted ? fit() : look()).observe(picture);

// Draws a node.
const draw = (node) => {
  picture.innerHTML = node.svg;
  const svg = picture.firstElementChild;
  whole = { width: Number(svg.getAttribute("width")), height: Number(svg.getAttribute("height")) };
  svg.removeAttribute("width");
  svg.removeAttribute("height");
  texts = node.boxes;
  if (!texts.length) picture.replaceChildren(make("p", {}, "There is nothing to draw."));
  boxes().forEach((box, at) => {
    box.setAttribute("role", "option");
    box.setAttribute("aria-selected", "false");
    box.setAttribute("aria-label", label(box, texts[at]));
  });
  fit();
};
// The name of a box begins with its visible text, so that voice control finds it, and goes on with all that has no place in it.
const label = (box, lines) => {
  const visible = [...box.querySelectorAll("text")].map((text) => text.textContent);
  const said = new Set(visible.flatMap((line) => line.split(", ")));
  return [...visible, ...lines.filter((line) => !said.has(line))].join(", ");
};

// The details of a box, next to it.
const hideDetails = () => { tip.hidden = true; };
const showDetails = (box) => {
  const [title, ...lines] = texts[boxes().indexOf(box)];
  const shown = lines.length > MOST_LINES ? [...lines.slice(0, MOST_LINES), `… ${lines.length - MOST_LINES} more in the tree`] : lines;
  tip.replaceChildren(make("strong", {}, title), make("ul", {}, ...shown.map((line) => make("li", {}, line))));
  tip.hidden = false;
  const { left, right, top, bottom } = box.getBoundingClientRect();
  const { width, height } = tip.getBoundingClientRect();
  const inside = (wanted, size, room) => Math.max(4, Math.min(wanted, room - size - 4));
  const [x, y] = bottom + height + 4 <= innerHeight ? [left, bottom]
    : top - height >= 4 ? [left, top - height]
    : [right + width + 4 <= innerWidth ? right : left - width, top];
  tip.style.left = `${inside(x, width, innerWidth)}px`;
  tip.style.top = `${inside(y, height, innerHeight)}px`;
};
document.addEventListener("pointerover", (event) => {
  const box = event.target.closest("#picture .box");
  if (box && !drag) showDetails(box);
  else if (!tip.contains(event.target)) hideDetails();
});
picture.addEventListener("focusin", (event) => {
  const box = event.target.closest(".box");
  if (!box) return;
  for (const other of boxes()) other.setAttribute("aria-selected", String(other === box));
  // A box outside of the pane moves into its middle.
  const pane = picture.getBoundingClientRect(), place = box.getBoundingClientRect();
  const isOut = place.left < pane.left || place.right > pane.right || place.top < pane.top || place.bottom > pane.bottom;
  if (isOut && !isFitted) pan((pane.left + pane.right - place.left - place.right) / 2, (pane.top + pane.bottom - place.top - place.bottom) / 2);
  showDetails(box);
});
picture.addEventListener("focusout", hideDetails);

// Zoom and pan.
let drag; // the last place of a pointer that pans
picture.addEventListener("wheel", (event) => {
  event.preventDefault();
  const { left, top } = picture.getBoundingClientRect();
  zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.002)), event.clientX - left, event.clientY - top);
}, { passive: false });
picture.addEventListener("pointerdown", (event) => {
  if (event.button === 0) drag = { x: event.clientX, y: event.clientY, hasMoved: false };
});
picture.addEventListener("pointermove", (event) => {
  if (!drag) return;
  const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
  // A click may tremble.
  if (!drag.hasMoved && Math.hypot(dx, dy) < 4) return;
  picture.setPointerCapture(event.pointerId);
  drag = { x: event.clientX, y: event.clientY, hasMoved: true };
  pan(dx, dy);
});
for (const name of ["pointerup", "pointercancel"]) picture.addEventListener(name, () => { drag = undefined; });
byId("in").addEventListener("click", () => zoom(1.4));
byId("out").addEventListener("click", () => zoom(1 / 1.4));
byId("fit").addEventListener("click", fit);
byId("node").addEventListener("keydown", (event) => {
  const action = { "+": () => zoom(1.4), "-": () => zoom(1 / 1.4), 0: fit }[event.key];
  if (action && !event.ctrlKey && !event.metaKey) { event.preventDefault(); action(); }
});
