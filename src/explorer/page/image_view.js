// Attention between places of an image: where every head looks from the selected pixel, and how the heads' centres
// moved from epoch to epoch.

class ImageView {
  constructor(app) {
    this.app = app;
    this.title = "Image";
    this.key = "image";
    this.epoch = -1;
    this.hover = null;
  }

  available() {
    return this.app.store.exhibit.layers.some((layer) => layer.grid);
  }

  // Layers of the selected kind; all if it has no grid.
  layers() {
    const all = this.app.store.exhibit.layers.map((layer, n) => ({ layer, n })).filter(({ layer }) => layer.grid);
    const own = all.filter(({ layer }) => layer.group === this.app.group);
    return own.length ? own : all;
  }

  // Places are selected on the finest grid.
  grid() {
    return this.app.finest();
  }

  name() {
    const [, cols] = this.grid();
    const { exhibit } = this.app.store;
    const which = exhibit.input === "image" ? `-${exhibit.text}` : "";
    return `image${which}-row-${Math.floor(this.app.row / cols)}-column-${this.app.row % cols}`;
  }

  controls(box) {
    const { epochs } = this.app.store.exhibit;
    if (epochs.length === 0) return;
    if (this.epoch < 0 || this.epoch >= epochs.length) this.epoch = epochs.length - 1;
    const label = document.createElement("label");
    label.textContent = "Epoch ";
    const slider = document.createElement("input");
    slider.type = "range";
    slider.id = "epoch";
    slider.min = 0;
    slider.max = epochs.length - 1;
    slider.value = this.epoch;
    const output = document.createElement("output");
    output.id = "epoch-number";
    const say = () => { output.textContent = ` ${epochs[this.epoch].number}`; };
    slider.addEventListener("input", () => {
      this.epoch = +slider.value;
      say();
      this.app.invalidate();
    });
    say();
    label.append(slider, output);
    this.slider = slider;
    box.append(label);
    const note = document.createElement("span");
    note.textContent = "○ centre and 50 %, 90 % of a head at that epoch; maps are of the trained model";
    note.style.color = "var(--faint)";
    box.append(note);
  }

  async load() {
    const { store } = this.app;
    const [rows, cols] = this.grid();
    if (this.app.row >= rows * cols) this.app.row = 0;
    const { row } = this.app;
    const layers = this.layers();
    const { group } = this.app;
    const queries = layers.map(({ n }) => this.app.queryOf(n));
    const answers = await Promise.all(layers.map(({ n }, place) => store.row(n, queries[place])));
    if (store !== this.app.store || row !== this.app.row || group !== this.app.group) return;
    this.maps = layers.map(({ layer, n }, place) => ({ layer, n, query: queries[place], numbers: answers[place] }));
    this.mapsOf = { store, group };
    this.pictures = null;
    this.app.invalidate();
  }

  // One small bitmap per head, drawn once per pixel.
  bitmaps() {
    const id = this.app.contrast;
    if (this.pictures && this.pictures.id === id) return this.pictures.list;
    const list = this.maps.map(({ layer, numbers }) => {
      const [rows, cols] = layer.grid;
      const heads = [];
      for (let h = 0; h < layer.heads; ++h) {
        const cells = numbers.cells.subarray(h * rows * cols, (h + 1) * rows * cols);
        const peak = cells.reduce((a, b) => Math.max(a, b), 0);
        heads.push(bitmap(this.app.theme, rows, cols, cells, () => peak, this.app.contrast));
      }
      return heads;
    });
    this.pictures = { id, list };
    return list;
  }

  photo() {
    const { picture } = this.app.store.exhibit;
    if (!picture) return null;
    if (this.photoOf !== picture) {
      const canvas = document.createElement("canvas");
      canvas.width = picture.cols;
      canvas.height = picture.rows;
      const context = canvas.getContext("2d");
      const image = context.createImageData(picture.cols, picture.rows);
      const bytes = bytesOf(picture.pixels);
      for (let n = 0; n < picture.rows * picture.cols; ++n)
        for (let c = 0; c < 4; ++c)
          image.data[4 * n + c] = c === 3 ? 255 : bytes[n * picture.channels + (picture.channels === 3 ? c : 0)];
      context.putImageData(image, 0, 0);
      this.photoOf = picture;
      this.photoCanvas = canvas;
    }
    return this.photoCanvas;
  }

  draw(p, width, height) {
    const { theme } = this.app;
    const [rows, cols] = this.grid();
    const row = Math.floor(this.app.row / cols);
    const col = this.app.row % cols;
    // On a tall screen the heads are below the image.
    const tall = width < 0.8 * height;
    const big = tall ? Math.min(width - 20, height * 0.4) : Math.min(width * 0.36, height - 40, 420);
    const scale = Math.min(big / cols, big / rows);
    const g = { x: 10, y: 26, scale, w: cols * scale, h: rows * scale };
    this.last = g;
    const caption = `from the place in row ${row}, column ${col}`;
    p.text(g.x, 12, caption, { fill: theme.faint, size: 12 });
    const photo = this.photo();
    if (photo) p.image(photo, g.x, g.y, g.w, g.h);
    else p.rect(g.x, g.y, g.w, g.h, { fill: theme.panel, stroke: theme.rule });
    if (scale >= 6)
      for (let n = 0; n <= Math.max(rows, cols); ++n) {
        if (n <= cols) p.line(g.x + n * scale, g.y, g.x + n * scale, g.y + g.h, { stroke: theme.rule, opacity: 0.5 });
        if (n <= rows) p.line(g.x, g.y + n * scale, g.x + g.w, g.y + n * scale, { stroke: theme.rule, opacity: 0.5 });
      }
    if (this.hover !== null && !p.saving)
      p.rect(g.x + (this.hover % cols) * scale, g.y + Math.floor(this.hover / cols) * scale, scale, scale, { stroke: theme.faint, width: 1.5 });
    p.rect(g.x + col * scale, g.y + row * scale, scale, scale, { stroke: "#ff2d55", width: 2.5 });
    const ready = this.maps && this.mapsOf.store === this.app.store && this.mapsOf.group === this.app.group;
    // Beside the image, and below its caption where that is the wider one.
    const [x, y] = tall ? [g.x, g.y + g.h + 12] : [g.x + g.w + 24, textWidth(caption, 12) > g.w + 16 ? 22 : 8];
    if (ready) this.drawHeads(p, x, y, width - x - 10, height - y - 8);
    else p.text(x, y + 20, "computing …", { fill: theme.faint });
  }

  drawHeads(p, x0, y0, width, height) {
    const { theme } = this.app;
    const bitmaps = this.bitmaps();
    const most = Math.max(...this.maps.map(({ layer }) => layer.heads));
    // Heads of a layer may wrap: the layout with the largest maps.
    let best = { side: 0, perLine: 1 };
    for (let perLine = 1; perLine <= most; ++perLine) {
      const lines = this.maps.reduce((sum, { layer }) => sum + Math.ceil(layer.heads / perLine), 0);
      const side = Math.min((width - 4) / perLine - 6, (height - this.maps.length * 18) / lines - 6, 180);
      if (side > best.side) best = { side, perLine };
    }
    const { side, perLine } = best;
    if (side < 6) return;
    const panels = [];
    let y = y0;
    this.maps.forEach(({ layer, n, query }, place) => {
      const [rows, cols] = layer.grid;
      const scale = side / Math.max(rows, cols);
      const [row, col] = [Math.floor(query / cols), query % cols];
      p.text(x0, y + 8, `${layer.name}${layer.mechanism ? ` — ${layer.mechanism}` : ""}`, { fill: theme.ink, size: 11 });
      y += 18;
      bitmaps[place].forEach((canvas, h) => {
        const x = x0 + (h % perLine) * (side + 6);
        const top = y + Math.floor(h / perLine) * (side + 6);
        p.image(canvas, x, top, cols * scale, rows * scale);
        p.rect(x + col * scale, top + row * scale, scale, scale, { stroke: "#ff2d55", width: 1.2 });
        const chosen = n === this.app.layer && h === this.app.head;
        p.rect(x, top, cols * scale, rows * scale, { stroke: chosen ? theme.accent : theme.rule, width: chosen ? 2.5 : 1 });
        this.drawCenter(p, place, h, x + (col + 0.5) * scale, top + (row + 0.5) * scale, scale, { x, y: top, w: cols * scale, h: rows * scale });
        panels.push({ x, y: top, scale, layer: n, head: h, place, grid: layer.grid });
      });
      y += Math.ceil(layer.heads / perLine) * (side + 6);
    });
    if (!p.saving) this.panels = panels;
  }

  // Where the head's centre was until this epoch, and the ellipses that hold half and nine tenths of its weight.
  drawCenter(p, layer, head, x, y, scale, box) {
    const { epochs } = this.app.store.exhibit;
    const at = (e) => epochs[e].centers[layer] && epochs[e].centers[layer][head];
    if (this.epoch < 0 || this.epoch >= epochs.length || !at(this.epoch)) return;
    p.clip(box.x, box.y, box.w, box.h);
    for (let e = 1; e <= this.epoch; ++e) {
      const a = at(e - 1);
      const b = at(e);
      if (a && b) p.line(x + a[1] * scale, y + a[0] * scale, x + b[1] * scale, y + b[0] * scale, { stroke: "#ffffff", width: 1, opacity: 0.7 });
    }
    const [down, right] = at(this.epoch);
    const spread = epochs[this.epoch].covariances[layer] && epochs[this.epoch].covariances[layer][head];
    if (spread) {
      const [[a, b], [, d]] = spread;
      const mean = (a + d) / 2;
      const root = Math.hypot((a - d) / 2, b);
      const angle = Math.atan2(mean + root - d, b || 1e-12);
      for (const share of [0.5, 0.9]) {
        const reach = Math.sqrt(-2 * Math.log(1 - share)) * scale;
        p.ellipse(x + right * scale, y + down * scale, reach * Math.sqrt(Math.max(0, mean + root)), reach * Math.sqrt(Math.max(0, mean - root)),
          angle, { stroke: "#ffffff", width: 1.2, opacity: share === 0.5 ? 1 : 0.6 });
      }
    }
    p.ellipse(x + right * scale, y + down * scale, 3, 3, 0, { fill: "#ffffff", stroke: "#000000", width: 1 });
    p.unclip();
  }

  // The place under the pointer, in the picture or in a head's map.
  find(x, y) {
    const within = (box, scale, [rows, cols]) => {
      const c = Math.floor((x - box.x) / scale);
      const r = Math.floor((y - box.y) / scale);
      return c >= 0 && r >= 0 && c < cols && r < rows ? r * cols + c : null;
    };
    if (this.last) {
      const place = within(this.last, this.last.scale, this.grid());
      if (place !== null) return { place };
    }
    for (const panel of this.panels || []) {
      const place = within(panel, panel.scale, panel.grid);
      if (place !== null) return { place, panel };
    }
    return null;
  }

  move(x, y) {
    const found = this.find(x, y);
    this.hover = found && !found.panel ? found.place : null;
    const where = (place, [, cols]) => `row ${Math.floor(place / cols)}, column ${place % cols}`;
    let text = "";
    if (found && found.panel) {
      const { numbers, layer } = this.maps[found.panel.place];
      const w = numbers.cells[found.panel.head * numbers.cols + found.place];
      text = `${layer.name}, head ${found.panel.head}: ${where(found.place, layer.grid)}: ${weightText(w)}`;
    } else if (found) {
      text = `${where(found.place, this.grid())}: click to look from here`;
    }
    this.app.say(text, [x, y]);
    this.app.invalidate();
  }

  leave() {
    this.hover = null;
    this.app.say("");
    this.app.invalidate();
  }

  click(x, y) {
    const found = this.find(x, y);
    if (!found) return;
    if (found.panel) this.app.choose(found.panel.layer, found.panel.head);
    else this.app.setRow(found.place);
  }

  drag() {}
  wheel() {}
  zoom() {}
  reset() {
    this.app.setRow(0);
  }

  step(by) {
    if (!this.slider || this.app.store.exhibit.epochs.length === 0) return;
    this.slider.value = +this.slider.value + by;
    this.slider.dispatchEvent(new Event("input"));
  }
}
