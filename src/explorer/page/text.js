// Texts of the page: tokens, numbers, file names.

// Strong characters of right-to-left scripts.
const rightToLeft = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

// Isolated: it keeps its own writing direction, and does not affect the text around it.
function isolated(text) {
  return rightToLeft.test(text) ? `\u2068${text}\u2069` : text;
}

// White space and empty tokens must be visible too, and direction marks must not affect the text around them. Joiners
// within a token belong to its letters.
function shown(token) {
  if (token === "") return "∅";
  return token.replace(/ /g, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥")
    .replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]|^[\u200c\u200d]+$/g, "·");
}

function short(token, most) {
  const text = shown(token);
  const letters = Array.from(text.length > 4 * most ? text.slice(0, 4 * most) : text);
  return isolated(letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : letters.join(""));
}

const letterCache = new Map();
const segmenter = typeof Intl.Segmenter === "function" ? new Intl.Segmenter(undefined, { granularity: "grapheme" }) : null;
// Whether a reader sees one character: combining marks and joiners do not count.
function isLetter(token) {
  if (token.length > 24) return false;
  if (!letterCache.has(token)) {
    if (letterCache.size > 65536) letterCache.clear();
    letterCache.set(token, (segmenter ? [...segmenter.segment(shown(token))] : Array.from(shown(token))).length === 1);
  }
  return letterCache.get(token);
}

const fontFamily = "'DejaVu Sans', Verdana, sans-serif";
const ruler = document.createElement("canvas").getContext("2d");
const widths = new Map();
// Measured once: width is proportional to size.
function textWidth(text, size, bold = false) {
  const key = bold ? `b${text}` : `n${text}`;
  let width = widths.get(key);
  if (width === undefined) {
    if (widths.size > 65536) widths.clear();
    ruler.font = `${bold ? "bold " : ""}32px ${fontFamily}`;
    width = ruler.measureText(text).width / 32;
    widths.set(key, width);
  }
  return width * size;
}

// As much of a token as fits into the pixels.
function fitted(token, size, pixels, most = 24) {
  let text = short(token, most);
  for (let letters = most; letters > 2 && textWidth(text, size) > pixels; text = short(token, letters))
    letters = Math.min(letters - 1, Math.max(2, Math.floor((letters * pixels) / textWidth(text, size))));
  return text;
}

// A position and its token; if that is the number again, once is enough.
function numbered(n, token) {
  return token === String(n) ? token : `${n} “${short(token, 40)}”`;
}

function weightText(w) {
  if (w === 0) return "0";
  if (w >= 0.001) return w.toFixed(4);
  return w.toExponential(2);
}

function fileName(text) {
  return text.replace(/[^A-Za-z0-9.-]+/g, "-").replace(/^-+|-+$/g, "");
}

// The part in which names differ: "encoder.0.self" and "encoder.1.self" give 0 and 1. Numbers stay whole.
function distinct(names) {
  if (names.length < 2) return names.map((name) => (name.match(/\d+(\.\d+)*/) || [name])[0]);
  const shared = (list) => {
    let n = 0;
    while (n < Math.min(...list.map((name) => name.length)) && list.every((name) => name[n] === list[0][n])) ++n;
    return list[0].slice(0, n);
  };
  const head = shared(names).replace(/\d+$/, "");
  const rests = names.map((name) => name.slice(head.length));
  const tail = Array.from(shared(rests.map((rest) => Array.from(rest).reverse().join("")))).reverse().join("").replace(/^\d+/, "");
  const result = rests.map((rest) => rest.slice(0, rest.length - tail.length));
  return result.every((text) => text !== "") ? result : names;
}

