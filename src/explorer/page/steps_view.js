// Decoding step by step: the answer so far, likely alternatives, and where the step looked.

class StepsView {
  constructor(app) {
    this.app = app;
    this.title = "Steps";
    this.key = "steps";
    this.at = 0;
    this.mean = true;
    this.scroll = 0;
  }

  available() {
    return this.app.store.exhibit.steps.length > 0;
  }

  name() {
    const look = this.looks && (this.looks.source || this.looks.self);
    const from = look ? `-${this.app.store.exhibit.layers[look.layer].name}-${look.head === null ? "mean" : `head-${look.head}`}` : "";
    return `steps-${this.at}${from}`;
  }

  // The mean of one head is that head.
  severalHeads() {
    return this.app.store.exhibit.layers.some((layer) => layer.group !== "encoder" && layer.heads > 1);
  }

  controls(box) {
    const { steps } = this.app.store.exhibit;
    const button = (text, id, title, action) => {
      const b = document.createElement("button");
      b.type = "button";
      b.id = id;
      b.textContent = text;
      b.title = title;
      b.addEventListener("click", action);
      box.append(b);
      return b;
    };
    button("◀", "step-back", "Previous step (,)", () => this.step(-1));
    const slider = document.createElement("input");
    slider.type = "range";
    slider.min = 0;
    slider.max = steps.length - 1;
    slider.id = "step";
    slider.value = this.at;
    slider.setAttribute("aria-label", "Step");
    slider.addEventListener("input", () => this.go(+slider.value));
    box.append(slider);
    button("▶", "step-next", "Next step (.)", () => this.step(1));
    this.playButton = button("Play", "step-play", "Play (space)", () => this.play());
    this.slider = slider;
    if (!this.severalHeads()) return;
    const label = document.createElement("label");
    const check = document.createElement("input");
    check.type = "checkbox";
    check.id = "step-mean";
    check.checked = this.mean;
    check.addEventListener("change", () => {
      this.mean = check.checked;
      this.load();
    });
    label.append(check, " mean of the layer's heads");
    box.append(label);
  }

  // The layers of the other kinds at the depth of the selected one.
  beside(group) {
    const { layers } = this.app.store.exhibit;
    const places = (g) => layers.map((layer, n) => ({ layer, n })).filter(({ layer }) => layer.group === g).map(({ n }) => n);
    const own = places(layers[this.app.layer].group).indexOf(this.app.layer);
    const list = places(group);
    return list.length ? list[Math.min(Math.max(own, 0), list.length - 1)] : -1;
  }

  async look(group) {
    const layer = this.beside(group);
    if (layer < 0) return null;
    const { heads, keys } = this.app.store.exhibit.layers[layer];
    const row = await this.app.store.row(layer, this.at);
    const weights = new Float32Array(keys);
    const chosen = Math.min(this.app.head, heads - 1);
    const mean = this.mean && heads > 1;
    for (let h = 0; h < heads; ++h)
      if (mean || h === chosen)
        for (let j = 0; j < keys; ++j) weights[j] += row.cells[h * keys + j] / (mean ? heads : 1);
    return { layer, weights, head: mean ? null : chosen };
  }

  async load() {
    const { store } = this.app;
    this.at = Math.min(this.at, store.exhibit.steps.length - 1);
    const id = `${this.at}/${this.app.layer}/${this.app.head}/${this.mean}`;
    this.wanted = id;
    const [source, self] = await Promise.all([this.look("cross"), this.look("decoder")]);
    if (this.wanted !== id || store !== this.app.store) return;
    this.looks = { source, self };
    this.say();
    this.app.invalidate();
  }

  // Tokens as boxes that wrap; returns where the next line begins. tell(n): the tooltip of one.
  boxes(p, list, x0, y0, width, style, tell) {
    let x = x0;
    let y = y0;
    list.forEach((token, n) => {
      const text = fitted(token, 13, width - 12);
      const w = Math.max(22, textWidth(text, 13) + 12);
      if (x > x0 && x + w > x0 + width) {
        x = x0;
        y += 28;
      }
      style(p, n, x, y, w, text);
      if (!p.saving) this.hits.push({ x, y, w, h: 24, text: () => tell(n) });
      x += w + 4;
    });
    return y + 28;
  }

  // t: the position on the palette, or null if unknown.
  box(p, t, x, y, width, text) {
    const { theme } = this.app;
    p.rect(x, y, width, 24, { fill: t === null ? theme.panel : theme.color(t), stroke: theme.rule });
    p.text(x + width / 2, y + 12, text, { fill: t === null ? theme.faint : theme.inkOn(t), size: 13, align: "center" });
  }

  // A line, or two where it is too long.
  heading(p, y, width, title, more) {
    const style = { fill: this.app.theme.faint, size: 12 };
    const whole = more ? `${title} ${more}` : title;
    if (textWidth(whole, 12) <= width || !more) {
      p.text(20, y, whole, style);
      return y + 14;
    }
    p.text(20, y, title, style);
    p.text(20, y + 16, more, style);
    return y + 30;
  }

  // Tokens coloured by a step's weights, and the colour scale.
  drawLook(p, y, width, list, look) {
    const { theme, contrast } = this.app;
    const weights = look && look.weights;
    const peak = weights ? weights.reduce((a, b) => Math.max(a, b), 1e-9) : 1;
    const { of } = contrasts[contrast];
    const below = this.boxes(p, list, 20, y, width,
      (q, n, x, top, w, text) => this.box(q, weights && n < weights.length ? of(weights[n] / peak) : null, x, top, w, text),
      (n) => `key ${n} “${short(list[n], 40)}”: ${weights && n < weights.length ? weightText(weights[n]) : "computing …"}`);
    drawScaleAcross(p, theme, 28, below + 2, Math.min(180, width - 16), peak, contrast);
    return below + 42;
  }

  draw(p, width, height) {
    const { theme } = this.app;
    const { exhibit } = this.app.store;
    const { steps } = exhibit;
    const step = steps[this.at];
    const looks = this.looks || {};
    const inner = width - 40;
    // A saved picture shows all of it.
    const scroll = p.saving ? 0 : this.scroll;
    let y = 16 - scroll;
    if (!p.saving) {
      this.hits = [];
      p.clip(0, 0, width, height);
    }
    const from = (look) => (look ? `${exhibit.layers[look.layer].name}, ${look.head === null ? "mean of its heads" : `head ${look.head}`}` : "");
    const keysOf = (layer) => exhibit.tokens[exhibit.layers[layer].keyTokens];
    const crossLayer = this.beside("cross");
    if (crossLayer >= 0) {
      y = this.heading(p, y, inner, `Source — where step ${this.at} looks:`, from(looks.source));
      y = this.drawLook(p, y, inner, keysOf(crossLayer), looks.source);
    }
    const selfLayer = this.beside("decoder");
    if (selfLayer >= 0) {
      y = this.heading(p, y, inner, "What it has read so far —", from(looks.self));
      y = this.drawLook(p, y, inner, keysOf(selfLayer).slice(0, this.at + 1), looks.self);
    }
    y = this.heading(p, y, inner, "Produced so far");
    y = this.boxes(p, steps.slice(0, this.at + 1).map((s) => s.chosen[0]), 20, y, inner, (q, n, x, top, w, text) => {
      const now = n === this.at;
      q.rect(x, top, w, 24, { fill: now ? theme.accent : theme.panel, stroke: theme.rule });
      q.text(x + w / 2, top + 12, text, { fill: now ? theme.paper : theme.ink, size: 13, align: "center" });
    }, (n) => this.about(n)) + 18;
    y = this.heading(p, y, inner, `Step ${this.at}: what was likely`);
    const bars = step.others.some(([token]) => token === step.chosen[0]) ? step.others : [...step.others, step.chosen];
    const names = Math.min(width * 0.3, Math.max(...bars.map(([token]) => textWidth(short(token, p.saving ? 200 : 24), 12, true))));
    const longest = Math.min(420, inner - names - 70);
    for (const [token, probability] of bars) {
      const chosen = token === step.chosen[0];
      const text = p.saving ? short(token, 200) : fitted(token, 12, names);
      p.text(20 + names, y + 10, text, { fill: theme.ink, size: 12, align: "right", bold: chosen });
      p.rect(30 + names, y + 2, Math.max(1, probability * longest), 16, { fill: chosen ? theme.accent : theme.faint });
      p.text(38 + names + Math.max(1, probability * longest), y + 10, weightText(probability), { fill: theme.ink, size: 11 });
      y += 22;
    }
    if (p.saving) return;
    p.unclip();
    this.most = Math.max(0, y + scroll + 10 - height);
  }

  go(n) {
    this.at = Math.max(0, Math.min(this.app.store.exhibit.steps.length - 1, n));
    if (this.slider) this.slider.value = this.at;
    this.load().catch((error) => this.app.fail(error));
  }

  step(by) {
    this.go(this.at + by);
  }

  play() {
    if (this.timer) {
      this.stop();
      return;
    }
    if (this.at === this.app.store.exhibit.steps.length - 1) this.go(0);
    this.playButton.textContent = "Pause";
    this.timer = setInterval(() => {
      if (this.at + 1 >= this.app.store.exhibit.steps.length) this.stop();
      else this.step(1);
    }, 700);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    if (this.playButton) this.playButton.textContent = "Play";
  }

  about(n) {
    const [token, probability] = this.app.store.exhibit.steps[n].chosen;
    return `step ${n}: “${short(token, 40)}” with probability ${weightText(probability)}`;
  }

  say() {
    this.app.say(this.about(this.at));
  }

  move(x, y) {
    const hit = (this.hits || []).find((one) => x >= one.x && x < one.x + one.w && y >= one.y && y < one.y + one.h);
    if (hit) this.app.say(hit.text(), [x, y]);
    else this.say();
  }
  leave() {
    this.say();
  }
  click() {}
  drag(dx, dy) {
    this.wheel(0, 0, -dy);
  }
  wheel(x, y, amount) {
    this.scroll = Math.max(0, Math.min(this.most || 0, this.scroll + amount));
    this.app.invalidate();
  }
  zoom() {}
  reset() {
    this.scroll = 0;
    this.go(0);
  }
}
