// The heat map of one head: hover for values, wheel to zoom, drag to pan.

class MapView {
  constructor(app) {
    this.app = app;
    this.title = "Map";
    this.key = "map";
    this.hover = null;
    this.window = null;
  }

  available() {
    return true;
  }

  layer() {
    return this.app.store.exhibit.layers[this.app.layer];
  }

  controls() {}

  name() {
    return `map-${this.layer().name}-head-${this.app.head}`;
  }

  // The width of a list's labels, measured once, from its beginning.
  longest(list) {
    this.widths = this.widths || new WeakMap();
    if (!this.widths.has(list)) {
      const some = [...new Set(list.slice(0, 4096))];
      this.widths.set(list, { width: Math.max(...some.map((token) => textWidth(short(token, 24), 12))),
        letters: some.every(isLetter) });
    }
    return this.widths.get(list);
  }

  // The pixels that labels leave for the map itself.
  plot(width, height) {
    const { queryTokens, keyTokens, queries, keys } = this.layer();
    const { tokens } = this.app.store.exhibit;
    const above = this.longest(tokens[keyTokens]);
    const x = Math.round(Math.max(56, Math.min(this.longest(tokens[queryTokens]).width + 12, width * 0.3, 190)));
    const w = Math.max(40, width - x - 60);
    const upright = above.letters || Math.min(48, w / keys, (height - 40) / queries) >= above.width + 8;
    const y = Math.round(upright ? 32 : Math.max(40, Math.min(above.width + 16, height * 0.35, 190)));
    return { x, y, w, h: Math.max(40, height - y - 8), upright };
  }

  // Scales and the token in the upper left corner; reset when the map's size changes.
  frame(plot) {
    const { queries, keys } = this.layer();
    const id = `${queries}×${keys}`;
    if (!this.window || this.window.id !== id) this.window = { id, whole: true };
    const view = this.window;
    if (view.whole) {
      let sx = Math.min(48, plot.w / keys);
      let sy = Math.min(48, plot.h / queries);
      // Square cells, unless one side would become too short.
      if (Math.max(sx, sy) <= 2.5 * Math.min(sx, sy)) sx = sy = Math.min(sx, sy);
      Object.assign(view, { sx, sy, x: 0, y: 0 });
    }
    return view;
  }

  clampWindow(plot) {
    const { queries, keys } = this.layer();
    const view = this.window;
    view.x = Math.max(0, Math.min(view.x, keys - Math.min(keys, plot.w / view.sx)));
    view.y = Math.max(0, Math.min(view.y, queries - Math.min(queries, plot.h / view.sy)));
  }

  async load() {
    const { app } = this;
    const { store, layer, head } = app;
    const { queries, keys } = this.layer();
    const key = `${layer}-${head}`;
    if (this.base && this.base.store === store && this.base.key === key) {
      this.paint();
      return;
    }
    const most = store instanceof EmbeddedStore ? 1024 : 768;
    const part = { top: 0, left: 0, bottom: queries, right: keys };
    const tile = await store.map(layer, head, part, most, most);
    if (store !== app.store || layer !== app.layer || head !== app.head) return;
    this.base = { ...tile, part, key, store };
    this.detail = null;
    this.wanted = null;
    this.base.peaks = rowPeaks(tile.rows, tile.cols, tile.cells);
    this.base.peak = this.base.peaks.reduce((a, b) => Math.max(a, b), 0);
    this.paint();
  }

  // The weight of the lightest colour in a query's row.
  peakAt(query) {
    if (!contrasts[this.app.contrast].alone) return this.base.peak;
    return this.base.peaks[Math.floor((query * this.base.rows) / this.layer().queries)];
  }

  // Colours for the tiles; they change with the contrast only.
  paint() {
    for (const tile of [this.base, this.detail]) {
      if (!tile || tile.contrast === this.app.contrast) continue;
      tile.contrast = this.app.contrast;
      const rows = (tile.part.bottom - tile.part.top) / tile.rows;
      tile.canvas = bitmap(this.app.theme, tile.rows, tile.cols, tile.cells,
        (r) => this.peakAt(tile.part.top + Math.floor(r * rows)), this.app.contrast);
    }
    this.app.invalidate();
  }

  // Where the base tile is too coarse, the visible part is fetched.
  refine(plot) {
    const view = this.window;
    const { base } = this;
    const { queries, keys } = this.layer();
    if (!base || (base.rows === queries && base.cols === keys)) return;
    const coarse = Math.max((view.sx * keys) / base.cols, (view.sy * queries) / base.rows);
    if (coarse <= 1.3) return;
    const high = plot.h / view.sy;
    const wide = plot.w / view.sx;
    const part = {
      top: Math.max(0, Math.floor(view.y - high / 4)),
      bottom: Math.min(queries, Math.ceil(view.y + high * 1.25)),
      left: Math.max(0, Math.floor(view.x - wide / 4)),
      right: Math.min(keys, Math.ceil(view.x + wide * 1.25)),
    };
    const have = this.detail && this.detail.part;
    const covers = have && have.top <= view.y && have.bottom >= Math.min(queries, view.y + high) &&
      have.left <= view.x && have.right >= Math.min(keys, view.x + wide) &&
      (have.right - have.left) / this.detail.cols < 1.6 * Math.max(1, wide / plot.w);
    // A moving pointer redraws constantly: this waits for the window to rest, not for the pointer.
    const wanted = [part.top, part.bottom, part.left, part.right].join();
    if (covers || wanted === this.wanted) return;
    this.wanted = wanted;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.fetchDetail(part, wanted), 60);
  }

  async fetchDetail(part, wanted) {
    const { store, layer, head } = this.app;
    try {
      const tile = await store.map(layer, head, part, 1024, 1024);
      if (this.wanted !== wanted || !this.base || this.base.store !== store || this.base.key !== `${layer}-${head}`) return;
      this.detail = { ...tile, part };
      this.paint();
    } catch (error) {
      if (this.wanted === wanted) this.wanted = null;
      this.app.fail(error);
    }
  }

  drawTile(p, tile, view, plot) {
    const { part } = tile;
    const perRow = (part.bottom - part.top) / tile.rows;
    const perCol = (part.right - part.left) / tile.cols;
    // Only the part on the screen: canvases clip large images slowly.
    const r0 = Math.max(0, Math.floor((view.y - part.top) / perRow));
    const r1 = Math.min(tile.rows, Math.ceil((view.y + plot.h / view.sy - part.top) / perRow));
    const c0 = Math.max(0, Math.floor((view.x - part.left) / perCol));
    const c1 = Math.min(tile.cols, Math.ceil((view.x + plot.w / view.sx - part.left) / perCol));
    if (r1 <= r0 || c1 <= c0) return;
    p.image(tile.canvas, plot.x + (part.left + c0 * perCol - view.x) * view.sx,
      plot.y + (part.top + r0 * perRow - view.y) * view.sy,
      (c1 - c0) * perCol * view.sx, (r1 - r0) * perRow * view.sy, { x: c0, y: r0, w: c1 - c0, h: r1 - r0 });
  }

  draw(p, width, height) {
    const plot = this.plot(width, height);
    const view = this.frame(plot);
    const { theme } = this.app;
    this.last = plot;
    if (!this.base || !this.base.canvas || this.base.key !== `${this.app.layer}-${this.app.head}`) {
      p.text(plot.x, plot.y + 20, "computing …", { fill: theme.faint });
      return;
    }
    this.clampWindow(plot);
    this.refine(plot);
    const { queries, keys } = this.layer();
    const shownWidth = Math.min(plot.w, (keys - view.x) * view.sx);
    const shownHeight = Math.min(plot.h, (queries - view.y) * view.sy);
    p.clip(plot.x, plot.y, shownWidth, shownHeight);
    this.drawTile(p, this.base, view, plot);
    if (this.detail) this.drawTile(p, this.detail, view, plot);
    this.drawValues(p, view, plot);
    if (this.hover && !p.saving) {
      const x = plot.x + (this.hover.key - view.x) * view.sx;
      const y = plot.y + (this.hover.query - view.y) * view.sy;
      p.rect(plot.x, y, shownWidth, view.sy, { fill: "#ffffff", opacity: 0.12 });
      p.rect(x, plot.y, view.sx, shownHeight, { fill: "#ffffff", opacity: 0.12 });
      p.rect(x, y, view.sx, view.sy, { stroke: "#ffffff", width: 1.5 });
    }
    p.unclip();
    p.rect(plot.x, plot.y, shownWidth, shownHeight, { stroke: theme.rule });
    this.drawLabels(p, view, plot);
    drawScale(p, theme, plot.x + shownWidth + 14, plot.y, Math.min(200, plot.h), this.base.peak, this.app.contrast);
  }

  drawValues(p, view, plot) {
    if (view.sx < 34 || view.sy < 15) return;
    const { queries, keys } = this.layer();
    for (let i = Math.floor(view.y); i < Math.min(queries, view.y + plot.h / view.sy); ++i)
      for (let j = Math.floor(view.x); j < Math.min(keys, view.x + plot.w / view.sx); ++j) {
        const found = this.valueAt(i, j);
        if (!found.exact) return;
        const peak = this.peakAt(i);
        const t = contrasts[this.app.contrast].of(peak > 0 ? found.weight / peak : 0);
        p.text(plot.x + (j + 0.5 - view.x) * view.sx, plot.y + (i + 0.5 - view.y) * view.sy, found.weight.toFixed(2),
          { fill: this.app.theme.inkOn(t), size: 10, align: "center" });
      }
  }

  drawLabels(p, view, plot) {
    const { theme } = this.app;
    const { queryTokens, keyTokens, queries, keys } = this.layer();
    const { tokens } = this.app.store.exhibit;
    // 1, 2, 5, 10, 20 …: the step between labels that need some pixels each.
    const every = (scale, pixels = 10) => {
      if (scale >= 10) return 1;
      const ten = 10 ** Math.floor(Math.log10(pixels / scale));
      return Math.max(1, ten * [1, 2, 5, 10].find((n) => n * ten * scale >= pixels));
    };
    const size = (scale) => Math.max(8, Math.min(12, scale * 0.9));
    const room = (pixels) => (p.saving ? Infinity : pixels);
    const label = (list, n, scale, pixels) =>
      (every(scale) > 1 ? String(n) : fitted(list[n], size(scale), room(pixels), p.saving ? 200 : 24));
    const pointed = (side, n) => (!p.saving && this.hover && this.hover[side] === n ? theme.accent : theme.ink);
    const stepY = every(view.sy);
    for (let i = Math.ceil(view.y / stepY) * stepY; i + 0.5 < Math.min(queries, view.y + plot.h / view.sy); i += stepY)
      p.text(plot.x - 5, plot.y + (i + 0.5 - view.y) * view.sy, label(tokens[queryTokens], i, view.sy, plot.x - 8),
        { fill: pointed("query", i), size: size(view.sy), align: "right" });
    // Numbers are horizontal.
    const stepX = every(view.sx, textWidth(String(keys), 9) + 8);
    for (let j = Math.ceil(view.x / stepX) * stepX; j + 0.5 < Math.min(keys, view.x + plot.w / view.sx); j += stepX) {
      const text = label(tokens[keyTokens], j, view.sx, plot.y - 8);
      const upright = stepX > 1 || plot.upright || isLetter(tokens[keyTokens][j]);
      const place = { fill: pointed("key", j), size: stepX > 1 ? 9 : size(view.sx) };
      const x = plot.x + (j + 0.5 - view.x) * view.sx;
      if (upright) p.text(x, plot.y - 10, text, { ...place, align: "center" });
      else p.text(x, plot.y - 6, text, { ...place, turned: true });
    }
    p.text(plot.x - 5, plot.y - 22, "key →", { fill: theme.faint, size: 10, align: "right" });
    p.text(plot.x - 5, plot.y - 9, "query ↓", { fill: theme.faint, size: 10, align: "right" });
  }

  // The weight of a pair, or the largest of its cell.
  valueAt(query, key) {
    for (const tile of [this.detail, this.base]) {
      if (!tile) continue;
      const { part } = tile;
      if (query < part.top || query >= part.bottom || key < part.left || key >= part.right) continue;
      const y = Math.floor(((query - part.top) * tile.rows) / (part.bottom - part.top));
      const x = Math.floor(((key - part.left) * tile.cols) / (part.right - part.left));
      return { weight: tile.cells[y * tile.cols + x],
        exact: tile.rows === part.bottom - part.top && tile.cols === part.right - part.left };
    }
    return { weight: 0, exact: false };
  }

  at(x, y) {
    if (!this.last || !this.window || !this.base) return null;
    const { queries, keys } = this.layer();
    const key = Math.floor(this.window.x + (x - this.last.x) / this.window.sx);
    const query = Math.floor(this.window.y + (y - this.last.y) / this.window.sy);
    const inside = x >= this.last.x && y >= this.last.y && x < this.last.x + this.last.w && y < this.last.y + this.last.h;
    return inside && key >= 0 && query >= 0 && key < keys && query < queries ? { query, key } : null;
  }

  move(x, y) {
    this.hover = this.at(x, y);
    this.say([x, y]);
    this.app.invalidate();
  }

  say(at) {
    if (!this.hover) {
      this.app.say("");
      return;
    }
    const { query, key } = this.hover;
    const { queryTokens, keyTokens } = this.layer();
    const { tokens } = this.app.store.exhibit;
    const found = this.valueAt(query, key);
    this.app.say(`query ${numbered(query, tokens[queryTokens][query])} → ` +
      `key ${numbered(key, tokens[keyTokens][key])}: ${weightText(found.weight)}${found.exact ? "" : ", the largest near it"}`, at);
  }

  leave() {
    this.hover = null;
    this.app.say("");
    this.app.invalidate();
  }

  click(x, y) {
    const place = this.at(x, y);
    if (place) this.app.chooseQuery(place.query);
  }

  drag(dx, dy) {
    if (!this.window) return;
    this.window.whole = false;
    this.window.x -= dx / this.window.sx;
    this.window.y -= dy / this.window.sy;
    this.app.invalidate();
  }

  zoomAt(x, y, factor) {
    const view = this.window;
    if (!view || !this.last) return;
    const plot = this.last;
    const { queries, keys } = this.layer();
    const least = Math.min(plot.w / keys, plot.h / queries, 48);
    const scale = Math.max(least / Math.min(view.sx, view.sy), Math.min(96 / Math.max(view.sx, view.sy), factor));
    const key = view.x + (x - plot.x) / view.sx;
    const query = view.y + (y - plot.y) / view.sy;
    view.whole = false;
    view.sx *= scale;
    view.sy *= scale;
    view.x = key - (x - plot.x) / view.sx;
    view.y = query - (y - plot.y) / view.sy;
    this.app.invalidate();
  }

  wheel(x, y, amount) {
    this.zoomAt(x, y, Math.exp(-amount / 400));
    this.hover = this.at(x, y);
    this.say([x, y]);
  }

  zoom(factor) {
    if (this.last) this.zoomAt(this.last.x + this.last.w / 2, this.last.y + this.last.h / 2, factor);
  }

  reset() {
    this.window = null;
    this.detail = null;
    this.wanted = null;
    this.app.invalidate();
  }

  step(by) {
    this.app.chooseQuery(this.app.queryOf(this.app.layer) + by);
  }
}

