// The page: what is chosen, and who is told when that changes.

class App {
  constructor(data) {
    this.data = data;
    this.contrast = "root";
    this.row = 0;
    this.heads = new Set();
    this.setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    this.theme = new Theme(bytesOf(data.palette));
    this.overview = new Overview(this);
    this.views = [new MapView(this), new LinesView(this), new StepsView(this), new ImageView(this)];
    this.canvas = document.getElementById("canvas");
    this.frame = document.getElementById("frame");
    this.listen();
  }

  async start() {
    if (!this.data.served) this.open(new EmbeddedStore(this.data));
    else this.open(await ServedStore.open("/api/exhibit"));
  }

  open(store) {
    this.store = store;
    const { exhibit } = store;
    this.row = 0;
    document.title = `${exhibit.title} – attention`;
    document.getElementById("title").textContent = exhibit.title;
    const line = [];
    if (exhibit.text && exhibit.input === "text") line.push(`${shown(exhibit.text)} → ${shown(exhibit.target)}`);
    if (exhibit.note) line.push(exhibit.note);
    document.getElementById("subtitle").textContent = line.join("   ");
    document.getElementById("live").hidden = !this.data.live;
    document.getElementById("live-text").value = exhibit.text;
    document.getElementById("live-label").textContent = exhibit.input === "image" ? "Test image" : "Text";
    document.getElementById("live-goal").hidden = exhibit.input === "image";
    const groups = [...new Set(exhibit.layers.map((layer) => layer.group))];
    // Where the answer looks in the source says most.
    if (!groups.includes(this.group)) this.group = groups.includes("cross") ? "cross" : groups[0];
    this.makeGroups(groups);
    this.makeViews();
    this.openGroup();
  }

  makeGroups(groups) {
    const box = document.getElementById("groups");
    box.replaceChildren();
    if (groups.length < 2) return;
    for (const group of groups) {
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.group = group;
      button.textContent = this.store.exhibit.layers.find((layer) => layer.group === group).groupTitle;
      button.addEventListener("click", () => {
        this.group = group;
        this.openGroup();
      });
      box.append(button);
    }
  }

  openGroup() {
    for (const button of document.querySelectorAll("#groups button"))
      button.setAttribute("aria-pressed", String(button.dataset.group === this.group));
    const layers = this.overview.layers();
    // The same depth as before, where there is one.
    const depth = Math.max(0, Math.min(this.depth || 0, layers.length - 1));
    this.layer = layers[depth];
    this.head = Math.min(this.head || 0, this.store.exhibit.layers[this.layer].heads - 1);
    this.heads = new Set([this.head]);
    this.row = Math.min(this.row, this.store.exhibit.layers[this.layer].queries - 1);
    this.overview.build();
    this.changed();
  }

  makeViews() {
    const box = document.getElementById("views");
    box.replaceChildren();
    const usable = this.views.filter((view) => view.available());
    const asked = new URLSearchParams(location.hash.slice(1)).get("view");
    if (!usable.includes(this.view))
      this.view = usable.find((view) => view.key === asked) || usable.find((view) => view.key === "image") || usable[0];
    this.usable = usable;
    usable.forEach((view, n) => {
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.view = view.key;
      button.textContent = view.title;
      button.title = `${view.title} (${n + 1})`;
      button.addEventListener("click", () => this.show(view));
      box.append(button);
    });
  }

  show(view) {
    for (const other of this.views) if (other.stop) other.stop();
    this.view = view;
    this.changed();
  }

  choose(layer, head) {
    const moved = layer !== this.layer;
    this.layer = layer;
    this.head = head;
    this.depth = this.overview.layers().indexOf(layer);
    if (moved || this.heads.size <= 1 || !this.heads.has(head)) this.heads = new Set([head]);
    this.changed();
  }

  isShown(head) {
    return this.view && this.view.key === "lines" ? this.heads.has(head) : head === this.head;
  }

  // More heads of the layer beside the chosen one; one always stays.
  toggleHead(head) {
    if (this.heads.has(head) && this.heads.size > 1) this.heads.delete(head);
    else this.heads.add(head);
    if (!this.heads.has(this.head)) this.head = [...this.heads][0];
    this.overview.mark();
    this.load();
  }

  setRow(row) {
    const { queries } = this.store.exhibit.layers[this.layer];
    this.row = Math.max(0, Math.min(queries - 1, row));
    if (this.view.key === "image") this.load();
    this.invalidate();
  }

  // Another layer, head, view or text.
  changed() {
    for (const button of document.querySelectorAll("#views button"))
      button.setAttribute("aria-pressed", String(button.dataset.view === this.view.key));
    const controls = document.getElementById("controls");
    controls.replaceChildren();
    this.view.controls(controls);
    this.overview.mark();
    this.say("");
    const layer = this.store.exhibit.layers[this.layer];
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", `${this.view.title}: ${layer.name}, head ${this.head}`);
    this.load();
  }

  async load() {
    const { view } = this;
    try {
      await view.load();
    } catch (error) {
      this.fail(error);
    }
    this.invalidate();
  }

  summariesReady() {
    document.body.dataset.ready = "true";
  }

  say(text) {
    document.getElementById("readout").textContent = text;
  }

  fail(error) {
    const box = document.getElementById("message");
    box.textContent = error.message || String(error);
    box.hidden = false;
  }

  clearMessage() {
    document.getElementById("message").hidden = true;
  }

  setTheme(name) {
    document.documentElement.dataset.theme = name;
    if (this.theme) this.theme.refresh();
  }

  invalidate() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.draw();
    });
  }

  draw() {
    if (!this.store) return;
    const { clientWidth: width, clientHeight: height } = this.frame;
    const ratio = devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
    }
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = this.theme.paper;
    context.fillRect(0, 0, width, height);
    this.view.draw(new CanvasPainter(context), width, height);
  }

  // what: "view" or "overview"; as: "svg" or "png".
  async save(what, as) {
    const thing = what === "view" ? this.view : this.overview;
    const [width, height] = what === "view" ? [this.frame.clientWidth, this.frame.clientHeight] : this.overview.size();
    const layer = this.store.exhibit.layers[this.layer];
    const name = what === "view" ? `${this.view.key}-${layer.name}-head-${this.head}` : `heads-${this.group}`;
    let blob;
    if (as === "svg") {
      const p = new SvgPainter(width, height);
      p.rect(0, 0, width, height, { fill: this.theme.paper });
      thing.draw(p, width, height);
      blob = new Blob([p.finish()], { type: "image/svg+xml" });
    } else {
      const canvas = document.createElement("canvas");
      canvas.width = 2 * width;
      canvas.height = 2 * height;
      const context = canvas.getContext("2d");
      context.scale(2, 2);
      context.fillStyle = this.theme.paper;
      context.fillRect(0, 0, width, height);
      thing.draw(new CanvasPainter(context), width, height);
      blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
    }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${name.replace(/[^A-Za-z0-9.-]+/g, "-")}.${as}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  async runLive() {
    const button = document.getElementById("live-run");
    button.disabled = true;
    this.clearMessage();
    try {
      const text = document.getElementById("live-text").value;
      const target = document.getElementById("live-target").value;
      this.open(await ServedStore.open("/api/run", { text, target }));
    } catch (error) {
      this.fail(error);
    }
    button.disabled = false;
  }

  listen() {
    const { canvas } = this;
    const place = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    let drag = null;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      drag = { at: place(event), moved: false };
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = place(event);
      if (drag) {
        const [dx, dy] = [x - drag.at[0], y - drag.at[1]];
        if (drag.moved || Math.hypot(dx, dy) > 3) {
          drag.moved = true;
          drag.at = [x, y];
          this.view.drag(dx, dy);
        }
      } else {
        this.view.move(x, y);
      }
    });
    canvas.addEventListener("pointerup", (event) => {
      if (drag && !drag.moved) this.view.click(...place(event));
      drag = null;
    });
    canvas.addEventListener("pointercancel", () => { drag = null; });
    canvas.addEventListener("pointerleave", () => this.view.leave());
    canvas.addEventListener("dblclick", () => this.view.key === "map" && this.view.reset());
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.view.wheel(...place(event), event.deltaY * (event.deltaMode === 1 ? 16 : 1));
    }, { passive: false });
    new ResizeObserver(() => this.invalidate()).observe(this.frame);
    document.getElementById("contrast").addEventListener("change", (event) => {
      this.contrast = event.target.value;
      this.overview.redraw();
      this.load();
    });
    document.getElementById("reset").addEventListener("click", () => this.view.reset());
    document.getElementById("theme").addEventListener("click", () => this.switchTheme());
    document.getElementById("help").addEventListener("click", () => document.getElementById("keys").showModal());
    for (const button of document.querySelectorAll("[data-export]"))
      button.addEventListener("click", () => this.save(...button.dataset.export.split("-")).catch((e) => this.fail(e)));
    document.getElementById("live").addEventListener("submit", (event) => {
      event.preventDefault();
      this.runLive();
    });
    document.addEventListener("keydown", (event) => this.key(event));
  }

  switchTheme() {
    this.setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    this.invalidate();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.getElementById("keys").open) return;
    if (event.target.matches("input:not([type=checkbox]), select, textarea")) return;
    // A button in focus keeps its own key.
    if (event.key === " " && event.target.matches("button")) return;
    const groups = [...document.querySelectorAll("#groups button")];
    const actions = {
      ArrowLeft: () => this.overview.step(0, -1),
      ArrowRight: () => this.overview.step(0, 1),
      ArrowUp: () => this.overview.step(-1, 0),
      ArrowDown: () => this.overview.step(1, 0),
      "+": () => this.view.zoom(1.5),
      "=": () => this.view.zoom(1.5),
      "-": () => this.view.zoom(1 / 1.5),
      0: () => this.view.reset(),
      ",": () => this.view.step(-1),
      ".": () => this.view.step(1),
      " ": () => this.view.play && this.view.play(),
      s: () => this.save("view", "svg"),
      p: () => this.save("view", "png"),
      t: () => this.switchTheme(),
      g: () => {
        const at = groups.findIndex((button) => button.dataset.group === this.group);
        if (groups.length) groups[(at + 1) % groups.length].click();
      },
      "?": () => document.getElementById("keys").showModal(),
    };
    const view = this.usable && this.usable[+event.key - 1];
    const action = actions[event.key] || (view && (() => this.show(view)));
    if (!action) return;
    event.preventDefault();
    action();
  }
}

const app = new App(JSON.parse(document.getElementById("data").textContent));
app.start().catch((error) => app.fail(error));
