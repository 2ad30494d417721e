// Pictures for files: cropped to what is drawn, on a light background unless the dark one is chosen.

// Draws nothing, but measures the extent of a drawing.
class BoundsPainter {
  constructor() {
    this.saving = true;
    this.found = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
    this.clips = [];
  }
  add(left, top, right, bottom) {
    const clip = this.clips[this.clips.length - 1];
    if (clip) {
      left = Math.max(left, clip.left);
      top = Math.max(top, clip.top);
      right = Math.min(right, clip.right);
      bottom = Math.min(bottom, clip.bottom);
    }
    if (!(left <= right && top <= bottom)) return;
    const { found } = this;
    found.left = Math.min(found.left, left);
    found.top = Math.min(found.top, top);
    found.right = Math.max(found.right, right);
    found.bottom = Math.max(found.bottom, bottom);
  }
  rect(x, y, w, h) {
    this.add(x, y, x + w, y + h);
  }
  line(x1, y1, x2, y2) {
    this.add(Math.min(x1, x2), Math.min(y1, y2), Math.max(x1, x2), Math.max(y1, y2));
  }
  ellipse(x, y, rx, ry) {
    const reach = Math.max(rx, ry);
    this.add(x - reach, y - reach, x + reach, y + reach);
  }
  text(x, y, text, { size = 12, align = "left", turned = false, bold = false }) {
    const length = textWidth(text, size, bold);
    const before = { left: 0, center: length / 2, right: length }[align];
    const half = 0.65 * size;
    if (turned) this.add(x - half, y - length + before, x + half, y + before);
    else this.add(x - before, y - half, x - before + length, y + half);
  }
  image(canvas, x, y, w, h) {
    this.add(x, y, x + w, y + h);
  }
  clip(x, y, w, h) {
    const outer = this.clips[this.clips.length - 1] || { left: -Infinity, top: -Infinity, right: Infinity, bottom: Infinity };
    this.clips.push({ left: Math.max(x, outer.left), top: Math.max(y, outer.top),
      right: Math.min(x + w, outer.right), bottom: Math.min(y + h, outer.bottom) });
  }
  unclip() {
    this.clips.pop();
  }
  // Whole pixels, with a margin.
  box(margin) {
    const { left, top, right, bottom } = this.found;
    if (!(left <= right && top <= bottom)) return { x: 0, y: 0, w: 2 * margin, h: 2 * margin };
    const x = Math.floor(left - margin);
    const y = Math.floor(top - margin);
    return { x, y, w: Math.ceil(right + margin) - x, h: Math.ceil(bottom + margin) - y };
  }
}

// draw(painter) on the background of a theme, as a Blob; as: "svg" or "png".
async function pictureOf(draw, theme, as) {
  const bounds = new BoundsPainter();
  draw(bounds);
  const box = bounds.box(12);
  if (as === "svg") {
    const p = new SvgPainter(box);
    p.rect(box.x, box.y, box.w, box.h, { fill: theme.paper });
    draw(p);
    return new Blob([p.finish()], { type: "image/svg+xml" });
  }
  // Browsers limit the size of a canvas.
  const scale = Math.min(2, 16000 / Math.max(box.w, box.h));
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(scale * box.w);
  canvas.height = Math.round(scale * box.h);
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.translate(-box.x, -box.y);
  context.fillStyle = theme.paper;
  context.fillRect(box.x, box.y, box.w, box.h);
  draw(new CanvasPainter(context, true));
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

