// One drawing interface with two targets: the page's canvas, and an SVG file.

class Theme {
  constructor(palette, name) {
    this.palette = palette;
    this.read(name);
  }
  // The colours of a theme, whichever the page has.
  read(name) {
    const root = document.documentElement;
    const own = root.dataset.theme;
    root.dataset.theme = name;
    const style = getComputedStyle(root);
    for (const color of ["paper", "panel", "ink", "faint", "rule", "accent", "missing"])
      this[color] = style.getPropertyValue(`--${color}`).trim();
    root.dataset.theme = own;
  }
  // t from 0 to 1 → [red, green, blue]
  rgb(t) {
    const n = 3 * Math.max(0, Math.min(255, Math.round(255 * t)));
    return [this.palette[n], this.palette[n + 1], this.palette[n + 2]];
  }
  color(t) {
    return `rgb(${this.rgb(t).join(",")})`;
  }
  inkOn(t) {
    const [r, g, b] = this.rgb(t);
    return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#000000" : "#ffffff";
  }
}

// Distinct for every kind of colour vision (Okabe and Ito).
const headColors = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#b8a800", "#8a6fdf"];

// From a fraction of the largest weight to a position on the palette.
const contrasts = {
  linear: { of: (x) => x, back: (y) => y },
  root: { of: (x) => Math.sqrt(x), back: (y) => y * y },
  // Rows that spread their weight over many keys would all be dark beside one that looks at a single key.
  row: { of: (x) => Math.sqrt(x), back: (y) => y * y, alone: true },
  log: {
    of: (x) => (x <= 1e-4 ? 0 : 1 + Math.log10(x) / 4),
    back: (y) => (y <= 0 ? 0 : 10 ** (4 * (y - 1))),
  },
};

// The largest number of each row.
function rowPeaks(rows, cols, cells) {
  const peaks = new Float32Array(rows);
  for (let r = 0; r < rows; ++r)
    for (let c = 0; c < cols; ++c) if (cells[r * cols + c] > peaks[r]) peaks[r] = cells[r * cols + c];
  return peaks;
}

// Numbers as an image with a pixel for each. peakOf(row): the weight of the lightest colour there.
function bitmap(theme, rows, cols, cells, peakOf, contrast) {
  const canvas = document.createElement("canvas");
  canvas.width = cols;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(cols, rows);
  const of = contrasts[contrast].of;
  const palette = theme.palette;
  let factor = 0;
  for (let n = 0; n < rows * cols; ++n) {
    if (n % cols === 0) {
      const peak = peakOf(n / cols);
      factor = peak > 0 ? 1 / peak : 0;
    }
    const at = 3 * Math.max(0, Math.min(255, Math.round(255 * of(cells[n] * factor))));
    image.data[4 * n] = palette[at];
    image.data[4 * n + 1] = palette[at + 1];
    image.data[4 * n + 2] = palette[at + 2];
    image.data[4 * n + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

// saving: for a file, which shows whole labels and no pointer.
class CanvasPainter {
  constructor(context, saving = false) {
    this.context = context;
    this.saving = saving;
  }
  rect(x, y, w, h, { fill, stroke, width = 1, opacity = 1 }) {
    const c = this.context;
    c.globalAlpha = opacity;
    if (fill) {
      c.fillStyle = fill;
      c.fillRect(x, y, w, h);
    }
    if (stroke) {
      c.strokeStyle = stroke;
      c.lineWidth = width;
      c.strokeRect(x, y, w, h);
    }
    c.globalAlpha = 1;
  }
  line(x1, y1, x2, y2, { stroke, width = 1, opacity = 1 }) {
    const c = this.context;
    c.globalAlpha = opacity;
    c.strokeStyle = stroke;
    c.lineWidth = width;
    c.beginPath();
    c.moveTo(x1, y1);
    c.lineTo(x2, y2);
    c.stroke();
    c.globalAlpha = 1;
  }
  ellipse(x, y, rx, ry, angle, { stroke, fill, width = 1, opacity = 1 }) {
    const c = this.context;
    c.globalAlpha = opacity;
    c.beginPath();
    c.ellipse(x, y, rx, ry, angle, 0, 2 * Math.PI);
    if (fill) {
      c.fillStyle = fill;
      c.fill();
    }
    if (stroke) {
      c.strokeStyle = stroke;
      c.lineWidth = width;
      c.stroke();
    }
    c.globalAlpha = 1;
  }
  text(x, y, text, { fill, size = 12, align = "left", turned = false, bold = false }) {
    const c = this.context;
    c.fillStyle = fill;
    c.font = `${bold ? "bold " : ""}${size}px ${fontFamily}`;
    c.textAlign = align;
    c.textBaseline = "middle";
    if (turned) {
      c.save();
      c.translate(x, y);
      c.rotate(-Math.PI / 2);
      c.fillText(text, 0, 0);
      c.restore();
    } else {
      c.fillText(text, x, y);
    }
  }
  image(canvas, x, y, w, h, source) {
    const c = this.context;
    c.imageSmoothingEnabled = false;
    if (source) c.drawImage(canvas, source.x, source.y, source.w, source.h, x, y, w, h);
    else c.drawImage(canvas, x, y, w, h);
  }
  clip(x, y, w, h) {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y, w, h);
    this.context.clip();
  }
  unclip() {
    this.context.restore();
  }
}

class SvgPainter {
  constructor(box) {
    this.box = box;
    this.saving = true;
    this.parts = [];
    this.clips = 0;
  }
  static escape(text) {
    // Characters that XML does not allow are left out.
    return String(text).replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "")
      .replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
  }
  add(name, attributes, content) {
    let text = `<${name}`;
    for (const [key, value] of Object.entries(attributes)) {
      if (value === undefined) continue;
      text += ` ${key}="${SvgPainter.escape(typeof value === "number" ? +value.toFixed(3) : value)}"`;
    }
    this.parts.push(content === undefined ? `${text}/>` : `${text}>${SvgPainter.escape(content)}</${name}>`);
  }
  style({ fill, stroke, width, opacity }) {
    return { fill: fill || "none", stroke, "stroke-width": stroke ? width || 1 : undefined,
      opacity: opacity === undefined || opacity === 1 ? undefined : opacity };
  }
  rect(x, y, w, h, style) {
    this.add("rect", { x, y, width: w, height: h, ...this.style(style) });
  }
  line(x1, y1, x2, y2, style) {
    this.add("line", { x1, y1, x2, y2, ...this.style(style) });
  }
  ellipse(x, y, rx, ry, angle, style) {
    const transform = angle ? `rotate(${(angle * 180 / Math.PI).toFixed(3)} ${x.toFixed(3)} ${y.toFixed(3)})` : undefined;
    this.add("ellipse", { cx: x, cy: y, rx, ry, transform, ...this.style(style) });
  }
  text(x, y, text, { fill, size = 12, align = "left", turned = false, bold = false }) {
    this.add("text", {
      x, y, fill, "font-size": size, "font-family": fontFamily,
      "font-weight": bold ? "bold" : undefined,
      "text-anchor": { left: "start", center: "middle", right: "end" }[align],
      "dominant-baseline": "central",
      transform: turned ? `rotate(-90 ${x.toFixed(3)} ${y.toFixed(3)})` : undefined,
    }, text);
  }
  image(canvas, x, y, w, h, source) {
    let part = canvas;
    if (source) {
      part = document.createElement("canvas");
      part.width = Math.max(1, Math.round(source.w));
      part.height = Math.max(1, Math.round(source.h));
      part.getContext("2d").drawImage(canvas, source.x, source.y, source.w, source.h, 0, 0, part.width, part.height);
    }
    this.add("image", { x, y, width: w, height: h, preserveAspectRatio: "none", style: "image-rendering: pixelated",
      href: part.toDataURL("image/png") });
  }
  clip(x, y, w, h) {
    const id = `c${++this.clips}`;
    this.parts.push(`<clipPath id="${id}"><rect x="${x}" y="${y}" width="${w}" height="${h}"/></clipPath><g clip-path="url(#${id})">`);
  }
  unclip() {
    this.parts.push("</g>");
  }
  finish() {
    return `<?xml version="1.0" encoding="UTF-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" width="${this.box.w}" ` +
      `height="${this.box.h}" viewBox="${this.box.x} ${this.box.y} ${this.box.w} ${this.box.h}">\n${this.parts.join("\n")}\n</svg>\n`;
  }
}

// A colour bar with the weights of its ends and middle.
function drawScale(p, theme, x, y, height, largest, contrast) {
  const peak = contrasts[contrast].alone ? 1 : largest;
  for (let n = 0; n < 64; ++n)
    p.rect(x, y + height - ((n + 1) * height) / 64, 12, height / 64 + 0.5, { fill: theme.color((n + 0.5) / 64) });
  for (const place of [0, 0.25, 0.5, 0.75, 1])
    p.text(x + 17, y + height * (1 - place), scaleText(peak * contrasts[contrast].back(place)), { fill: theme.faint, size: 10 });
  if (contrasts[contrast].alone) p.text(x, y + height + 14, "of its row", { fill: theme.faint, size: 10 });
}

// The same, horizontal.
function drawScaleAcross(p, theme, x, y, width, largest, contrast) {
  for (let n = 0; n < 64; ++n)
    p.rect(x + (n * width) / 64, y, width / 64 + 0.5, 8, { fill: theme.color((n + 0.5) / 64) });
  for (const place of [0, 0.5, 1])
    p.text(x + place * width, y + 16, scaleText(largest * contrasts[contrast].back(place)), { fill: theme.faint, size: 10, align: "center" });
}

function scaleText(w) {
  return w === 0 ? "0" : String(+w.toPrecision(2));
}

