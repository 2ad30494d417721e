// The grid of thumbnails, the filters, and the summary of the selected head.

const statistics = [
  { key: "entropy", title: "Entropy", unit: "nats" },
  { key: "distance", title: "Distance", unit: "places" },
  { key: "largest", title: "Largest", unit: "" },
];

// Distance is meaningful only if queries and keys are the same positions.
function hasDistance(exhibit, layer) {
  if (layer.grid) return true;
  if (layer.group === "cross" || layer.queries !== layer.keys) return false;
  const [queries, keys] = [exhibit.tokens[layer.queryTokens], exhibit.tokens[layer.keyTokens]];
  return queries === keys || queries.every((token, n) => token === keys[n]);
}

class Overview {
  constructor(app) {
    this.app = app;
    this.box = document.getElementById("thumbs");
    this.filterBox = document.getElementById("filter-rows");
    this.limits = {};
    this.shares = {};
    for (const { key } of statistics) this.shares[key] = [0, 1];
    document.getElementById("filter-reset").addEventListener("click", () => {
      for (const { key } of statistics) this.shares[key] = [0, 1];
      this.makeFilters();
      this.applyFilters();
    });
  }

  // The layers of the selected kind, as indices into the exhibit.
  layers() {
    return this.app.store.exhibit.layers.map((layer, n) => ({ layer, n }))
      .filter(({ layer }) => layer.group === this.app.group).map(({ n }) => n);
  }

  // The filters for heads of the selected kind.
  measures() {
    const { store, group } = this.app;
    if (!this.measured || this.measured.store !== store || this.measured.group !== group) {
      const { exhibit } = store;
      const offered = this.layers().every((l) => hasDistance(exhibit, exhibit.layers[l]));
      this.measured = { store, group, list: statistics.filter(({ key }) => key !== "distance" || offered) };
    }
    return this.measured.list;
  }

  unit({ key, unit }) {
    return key === "distance" && this.app.store.exhibit.layers[this.layers()[0]].grid ? "cells" : unit;
  }

  name() {
    return `heads-${this.app.group}`;
  }

  build() {
    const { store } = this.app;
    const layers = this.layers();
    const names = distinct(layers.map((l) => store.exhibit.layers[l].name));
    const most = Math.max(...layers.map((l) => store.exhibit.layers[l].heads));
    this.box.replaceChildren();
    this.box.style.gridTemplateColumns = `max-content repeat(${most}, minmax(26px, 64px))`;
    this.cells = new Map();
    this.summaries = new Map();
    const label = (text, kind, title = text) => {
      const span = document.createElement("span");
      span.className = kind;
      span.textContent = text;
      span.title = title;
      this.box.append(span);
    };
    label("", "layer");
    for (let h = 0; h < most; ++h) label(String(h), "column");
    document.getElementById("filters").hidden = layers.reduce((sum, l) => sum + store.exhibit.layers[l].heads, 0) < 2;
    for (const [place, l] of layers.entries()) {
      const layer = store.exhibit.layers[l];
      label(names[place], "layer", layer.name);
      for (let h = 0; h < most; ++h) {
        if (h >= layer.heads) {
          label("", "column");
          continue;
        }
        this.addCell(l, h, layer);
      }
    }
    this.load(layers);
  }

  addCell(l, h, layer) {
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.layer = l;
    button.dataset.head = h;
    button.setAttribute("aria-label", `${layer.name}, head ${h}`);
    button.setAttribute("aria-pressed", "false");
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 48;
    button.append(canvas);
    button.addEventListener("click", () => this.app.choose(l, h));
    this.box.append(button);
    this.cells.set(`${l}-${h}`, { button, canvas, l, h });
  }

  // A few at a time, so that a server stays free for the view.
  async load(layers) {
    const { store } = this.app;
    for (const l of layers)
      for (let h = 0; h < store.exhibit.layers[l].heads; ++h) {
        try {
          const summary = await store.summary(l, h);
          if (store !== this.app.store || !this.cells.has(`${l}-${h}`)) return;
          this.summaries.set(`${l}-${h}`, summary);
          this.drawCell(l, h);
        } catch (error) {
          this.app.fail(error);
          return;
        }
        if (!(store instanceof EmbeddedStore) && (h & 3) === 3) this.makeFilters();
      }
    this.makeFilters();
    this.applyFilters();
    this.app.summariesReady();
  }

  drawCell(l, h) {
    const cell = this.cells.get(`${l}-${h}`);
    const summary = this.summaries.get(`${l}-${h}`);
    if (!cell || !summary) return;
    if (!summary.squares) summary.squares = Float32Array.from(bytesOf(summary.thumbnail), (v) => (v / 255) ** 2);
    if (!summary.peaks) summary.peaks = rowPeaks(summary.rows, summary.cols, summary.squares);
    const { alone } = contrasts[this.app.contrast];
    const small = bitmap(this.app.theme, summary.rows, summary.cols, summary.squares,
      (r) => (alone ? summary.peaks[r] : 1), this.app.contrast);
    cell.canvas.width = summary.cols;
    cell.canvas.height = summary.rows;
    cell.canvas.getContext("2d").drawImage(small, 0, 0);
    const layer = this.app.store.exhibit.layers[l];
    const facts = this.measures().map(({ key, title }) => `${title.toLowerCase()} ${summary[key].toFixed(2)}`).join(", ");
    cell.button.setAttribute("aria-label", `${layer.name}, head ${h}: ${facts}`);
    cell.button.title = `${layer.name}, head ${h}\n${facts}`;
    if (l === this.app.layer && h === this.app.head) this.showFacts();
  }

  redraw() {
    for (const { l, h } of this.cells.values()) this.drawCell(l, h);
  }

  mark() {
    for (const { button, l, h } of this.cells.values())
      button.setAttribute("aria-pressed", String(l === this.app.layer && this.app.isShown(h)));
    this.showFacts();
  }

  showFacts() {
    const box = document.getElementById("facts");
    const layer = this.app.store.exhibit.layers[this.app.layer];
    const summary = this.summaries.get(`${this.app.layer}-${this.app.head}`);
    const facts = [["Layer", layer.name], ["Head", String(this.app.head)]];
    if (layer.mechanism) facts.push(["Mechanism", layer.mechanism]);
    facts.push(["Size", `${layer.queries} queries × ${layer.keys} keys`]);
    if (summary) {
      facts.push(["Entropy", `${summary.entropy.toFixed(3)} nats, mean of the rows`]);
      const distance = this.measures().find(({ key }) => key === "distance");
      if (distance) facts.push(["Distance", `${summary.distance.toFixed(2)} ${this.unit(distance)}, mean`]);
      facts.push(["Largest", `${summary.largest.toFixed(3)}, mean of the rows`]);
    }
    box.replaceChildren();
    for (const [name, value] of facts) {
      const dt = document.createElement("dt");
      dt.textContent = name;
      const dd = document.createElement("dd");
      dd.textContent = value;
      box.append(dt, dd);
    }
  }

  makeFilters() {
    const all = [...this.summaries.values()];
    this.filterBox.replaceChildren();
    for (const { key, title, unit } of this.measures().map((one) => ({ ...one, unit: this.unit(one) }))) {
      const values = all.map((s) => s[key]);
      const low = values.length ? Math.min(...values) : 0;
      const high = values.length ? Math.max(...values) : 1;
      this.limits[key] = [low, high];
      const row = document.createElement("div");
      row.className = "filter";
      const name = document.createElement("span");
      name.textContent = title;
      const output = document.createElement("output");
      const say = () => {
        const [a, b] = this.range(key);
        output.textContent = `${a.toFixed(2)} to ${b.toFixed(2)} ${unit}`;
      };
      const sliders = [0, 1].map((side) => {
        const slider = document.createElement("input");
        slider.type = "range";
        slider.min = 0;
        slider.max = 100;
        slider.value = 100 * this.shares[key][side];
        slider.dataset.filter = `${key}-${side ? "most" : "least"}`;
        slider.setAttribute("aria-label", `${title}, ${side ? "at most" : "at least"}`);
        slider.addEventListener("input", () => {
          this.shares[key][side] = slider.value / 100;
          say();
          this.applyFilters();
        });
        return slider;
      });
      say();
      row.append(name, ...sliders, output);
      this.filterBox.append(row);
    }
  }

  range(key) {
    const [low, high] = this.limits[key];
    return this.shares[key].map((share) => low + share * (high - low));
  }

  passes(l, h) {
    const summary = this.summaries.get(`${l}-${h}`);
    if (!summary) return true;
    return this.measures().every(({ key }) => {
      if (!this.limits[key]) return true;
      const [a, b] = this.range(key);
      const slack = 1e-9 + 1e-6 * Math.abs(b);
      return summary[key] >= a - slack && summary[key] <= b + slack;
    });
  }

  applyFilters() {
    let kept = 0;
    for (const { button, l, h } of this.cells.values()) {
      const passes = this.passes(l, h);
      kept += passes;
      button.classList.toggle("out", !passes);
    }
    document.getElementById("filter-count").textContent = `${kept} of ${this.cells.size} heads`;
  }

  // The next head in a direction that passes the filters.
  step(layerStep, headStep) {
    const layers = this.layers();
    let at = layers.indexOf(this.app.layer);
    let head = this.app.head;
    for (let tries = 0; tries < 4096; ++tries) {
      at += layerStep;
      head += headStep;
      if (at < 0 || at >= layers.length) return;
      const heads = this.app.store.exhibit.layers[layers[at]].heads;
      if (head < 0 || (headStep && head >= heads)) return;
      const place = Math.min(head, heads - 1);
      if (this.passes(layers[at], place)) {
        this.app.choose(layers[at], place);
        return;
      }
    }
  }

  draw(p) {
    const { theme } = this.app;
    const layers = this.layers();
    const most = Math.max(...layers.map((l) => this.app.store.exhibit.layers[l].heads));
    for (let h = 0; h < most; ++h)
      p.text(100 + h * 70 + 32, 20, `head ${h}`, { fill: theme.faint, size: 11, align: "center" });
    layers.forEach((l, row) => {
      const layer = this.app.store.exhibit.layers[l];
      p.text(92, 32 + row * 70 + 32, short(layer.name, 200), { fill: theme.ink, size: 11, align: "right" });
      for (let h = 0; h < layer.heads; ++h) {
        if (!this.passes(l, h)) continue;
        p.image(this.cells.get(`${l}-${h}`).canvas, 100 + h * 70, 32 + row * 70, 64, 64);
      }
    });
  }
}
