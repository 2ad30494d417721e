// Queries on the left, keys on the right, and a line for every large weight. Several heads of a layer may be shown at
// once, each in its own colour.

class LinesView {
  constructor(app) {
    this.app = app;
    this.title = "Lines";
    this.key = "lines";
    this.scroll = 0;
    this.least = 0.05;
    this.hover = null;  // { side: "query" or "key", place }
    this.pinned = null;
    this.most = 2500;
  }

  available() {
    return true;
  }

  layer() {
    return this.app.store.exhibit.layers[this.app.layer];
  }

  name() {
    const heads = [...this.app.heads].sort((a, b) => a - b);
    return `lines-${this.layer().name}-head${heads.length > 1 ? "s" : ""}-${heads.join("-")}`;
  }

  controls(box) {
    const label = document.createElement("label");
    label.textContent = "From weight ";
    const slider = document.createElement("input");
    slider.type = "range";
    slider.min = 0;
    slider.max = 100;
    slider.value = 100 * Math.sqrt(this.least);
    slider.id = "least";
    const output = document.createElement("output");
    const say = () => { output.textContent = ` ${weightText(this.least)}`; };
    slider.addEventListener("input", () => {
      this.least = (slider.value / 100) ** 2;
      say();
      this.found = null;
      this.app.invalidate();
    });
    say();
    label.append(slider, output);
    box.append(label);
    const { heads } = this.layer();
    if (heads === 1) return;
    for (let h = 0; h < Math.min(heads, 32); ++h) {
      const chip = document.createElement("button");
      chip.type = "button";
      chip.className = "chip";
      chip.dataset.chip = h;
      const patch = document.createElement("i");
      patch.style.background = headColors[h % headColors.length];
      chip.append(patch, String(h));
      chip.title = `head ${h}`;
      chip.setAttribute("aria-pressed", String(this.app.isShown(h)));
      chip.addEventListener("click", () => {
        this.app.toggleHead(h);
        chip.setAttribute("aria-pressed", String(this.app.isShown(h)));
      });
      box.append(chip);
    }
  }

  geometry(width, height) {
    const { queries, keys } = this.layer();
    const longest = Math.max(queries, keys);
    const row = Math.max(15, Math.min(26, (height - 30) / longest));
    // Lines that are too long to follow do not help.
    const half = Math.min(width * 0.2, 260);
    return { row, top: 24, left: width / 2 - half, right: width / 2 + half, w: width, h: height,
      most: Math.max(0, longest * row - (height - 30)) };
  }

  load() {
    this.found = null;
    this.app.invalidate();
  }

  // The rows on the screen, and one screen more on either side.
  async fetch(first, last) {
    const { store, layer } = this.app;
    const heads = [...this.app.heads];
    const { keys } = this.layer();
    const key = `${layer}:${heads}:${first}-${last}`;
    if (this.wanted === key && this.wantedStore === store) return;
    this.wanted = key;
    this.wantedStore = store;
    const part = { top: first, bottom: last, left: 0, right: keys };
    try {
      const maps = await Promise.all(heads.map((h) => store.map(layer, h, part, last - first, keys)));
      if (this.wanted !== key || this.app.store !== store) return;
      this.rows = { layer, store, heads, first, last, maps, key };
      this.found = null;
      this.app.invalidate();
    } catch (error) {
      this.wanted = null;
      this.app.fail(error);
    }
  }

  // Lines of the visible rows, the strongest first if there are too many.
  lines() {
    const focus = this.hover || this.pinned;
    const id = `${this.rows.key}/${this.least}/${focus ? focus.side + focus.place : ""}`;
    if (this.found && this.found.id === id) return this.found.lines;
    const { keys } = this.layer();
    const least = focus ? Math.min(this.least, 0.002) : Math.max(this.least, 1e-4);
    let lines = [];
    this.rows.maps.forEach((map, n) => {
      const color = headColors[this.rows.heads[n] % headColors.length];
      for (let r = 0; r < map.rows; ++r) {
        const query = this.rows.first + r;
        if (focus && focus.side === "query" && focus.place !== query) continue;
        for (let j = 0; j < keys; ++j) {
          if (focus && focus.side === "key" && focus.place !== j) continue;
          const w = map.cells[r * keys + j];
          if (w >= least) lines.push({ query, key: j, w, color });
        }
      }
    });
    if (lines.length > this.most) lines = lines.sort((a, b) => b.w - a.w).slice(0, this.most);
    this.found = { id, lines };
    return lines;
  }

  draw(p, width, height) {
    const { theme } = this.app;
    const g = this.geometry(width, height);
    this.last = g;
    this.scroll = Math.max(0, Math.min(this.scroll, g.most));
    const { queries, keys, queryTokens, keyTokens } = this.layer();
    const { tokens } = this.app.store.exhibit;
    // A saved picture has whole rows.
    const scroll = p.saving ? Math.ceil(this.scroll / g.row) * g.row : this.scroll;
    const first = Math.max(0, Math.floor(scroll / g.row));
    const count = p.saving ? Math.floor((height - g.top) / g.row) : Math.ceil((height - g.top) / g.row) + 1;
    // Whole blocks, so that scrolling seldom needs a request.
    const from = Math.min(Math.max(0, queries - 1), Math.floor(first / 64) * 64);
    const to = Math.min(queries, Math.ceil((first + count) / 64) * 64);
    if (to > from) this.fetch(from, to);
    p.text(g.left - 8, 10, "queries", { fill: theme.faint, size: 11, align: "right" });
    p.text(g.right + 8, 10, "keys", { fill: theme.faint, size: 11 });
    if (p.saving) p.clip(-1e6, g.top - 2, 2e6, Math.min(count, Math.max(queries, keys) - first) * g.row + 4);
    else p.clip(0, g.top - 2, width, height - g.top + 2);
    const y = (n) => g.top + (n + 0.5) * g.row - scroll;
    const received = new Map();
    const of = contrasts[this.app.contrast].of;
    const ready = this.rows && this.rows.store === this.app.store && this.rows.layer === this.app.layer;
    if (ready) {
      for (const { query, key, w, color } of this.lines()) {
        p.line(g.left, y(query), g.right, y(key), { stroke: color, width: 0.8 + 2.2 * w, opacity: 0.08 + 0.92 * of(Math.min(1, w)) });
        if (this.hover || this.pinned) {
          received.set(`k${key}`, Math.max(w, received.get(`k${key}`) || 0));
          received.set(`q${query}`, Math.max(w, received.get(`q${query}`) || 0));
        }
      }
    }
    const size = Math.min(13, g.row - 3);
    const column = (side, list, total, x, align) => {
      const room = p.saving ? Infinity : g.left - 12;
      for (let n = first; n < Math.min(total, first + count); ++n) {
        const share = received.get(side[0] + n) || 0;
        if (share) {
          const box = Math.min(g.left - 12, 180);
          p.rect(align === "right" ? x - box : x, y(n) - g.row / 2, box, g.row, { fill: theme.accent, opacity: 0.7 * of(Math.min(1, share)) });
        }
        const focus = [p.saving ? null : this.hover, this.pinned].some((f) => f && f.side === side && f.place === n);
        const text = fitted(list[n], size, room, p.saving ? 200 : 60);
        p.text(align === "right" ? x - 6 : x + 6, y(n), text, { fill: focus ? theme.accent : theme.ink, size, align, bold: focus });
      }
    };
    column("query", tokens[queryTokens], queries, g.left, "right");
    column("key", tokens[keyTokens], keys, g.right, "left");
    p.unclip();
    if (!ready) p.text(width / 2, 40, "computing …", { fill: theme.faint, align: "center" });
    if (g.most > 0 && !p.saving) {
      const high = (height - g.top) ** 2 / (height - g.top + g.most);
      const at = g.top + (this.scroll / g.most) * (height - g.top - high);
      p.rect(width - 6, at, 4, Math.max(12, high), { fill: theme.faint, opacity: 0.6 });
    }
  }

  at(x, y) {
    const g = this.last;
    if (!g || y < g.top) return null;
    const place = Math.floor((y - g.top + this.scroll) / g.row);
    const { queries, keys } = this.layer();
    if (x < g.left && place < queries) return { side: "query", place };
    if (x > g.right && place < keys) return { side: "key", place };
    return null;
  }

  move(x, y) {
    this.hover = this.at(x, y);
    this.say([x, y]);
    this.app.invalidate();
  }

  say(at) {
    const focus = this.hover;
    if (!focus) {
      this.app.say("");
      return;
    }
    const { queryTokens, keyTokens, keys } = this.layer();
    const { tokens } = this.app.store.exhibit;
    let text = `${focus.side} ${numbered(focus.place, tokens[focus.side === "query" ? queryTokens : keyTokens][focus.place])}`;
    const r = this.rows;
    if (focus.side === "query" && r && r.layer === this.app.layer && focus.place >= r.first && focus.place < r.last) {
      const best = [];
      r.maps.forEach((map, n) => {
        let place = 0;
        for (let j = 1; j < keys; ++j)
          if (map.cells[(focus.place - r.first) * keys + j] > map.cells[(focus.place - r.first) * keys + place]) place = j;
        const w = map.cells[(focus.place - r.first) * keys + place];
        best.push(`head ${r.heads[n]}: “${short(tokens[keyTokens][place], 20)}” ${weightText(w)}`);
      });
      text += ` looks most at ${best.join("; ")}`;
    }
    this.app.say(text, at);
  }

  leave() {
    this.hover = null;
    this.app.say("");
    this.app.invalidate();
  }

  click(x, y) {
    const place = this.at(x, y);
    const same = place && this.pinned && place.side === this.pinned.side && place.place === this.pinned.place;
    this.pinned = same ? null : place;
    if (place && place.side === "query") this.app.chooseQuery(place.place);
    this.app.invalidate();
  }

  drag(dx, dy) {
    this.scroll -= dy;
    this.app.invalidate();
  }

  wheel(x, y, amount) {
    this.scroll += amount;
    this.move(x, y);
  }

  zoom() {}

  reset() {
    this.scroll = 0;
    this.pinned = null;
    this.app.invalidate();
  }

  step(by) {
    const place = Math.max(0, Math.min(this.layer().queries - 1, (this.pinned && this.pinned.side === "query" ? this.pinned.place : this.app.queryOf(this.app.layer) - by) + by));
    this.pinned = { side: "query", place };
    this.app.chooseQuery(place);
    const g = this.last;
    if (g) this.scroll = Math.max(Math.min(this.scroll, place * g.row), (place + 2) * g.row - (g.h - g.top));
    this.app.invalidate();
  }
}
