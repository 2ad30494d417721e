// The page: the selection, and who is notified when it changes.

class App {
  constructor(data) {
    this.data = data;
    this.contrast = "root";
    this.row = 0;
    this.heads = new Set();
    this.size = [0, 0];  // of the canvas when it was drawn last
    this.palette = bytesOf(data.palette);
    this.setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
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
    this.makeSubtitle(exhibit);
    this.warn(exhibit.warnings || []);
    document.getElementById("live").hidden = !this.data.live;
    document.getElementById("live-text").value = exhibit.text;
    document.getElementById("live-label").textContent = exhibit.input === "image" ? "Test image" : "Text";
    document.body.classList.toggle("by-number", exhibit.input === "image");
    document.getElementById("live-goal").hidden = exhibit.input === "image";
    const groups = [...new Set(exhibit.layers.map((layer) => layer.group))];
    // The answer's attention to the source says most.
    if (!groups.includes(this.group)) this.group = groups.includes("cross") ? "cross" : groups[0];
    this.makeGroups(groups);
    this.makeViews();
    this.openGroup();
  }

  // Each text keeps its own writing direction; the question precedes the answer.
  makeSubtitle(exhibit) {
    const box = document.getElementById("subtitle");
    box.replaceChildren();
    const add = (name, text) => {
      const element = document.createElement(name);
      element.textContent = text;
      box.append(element);
    };
    if (exhibit.text && exhibit.input === "text") {
      add("bdi", shown(exhibit.text));
      box.append(" → ");
      add("bdi", shown(exhibit.target));
    }
    if (exhibit.text && exhibit.input === "text" && exhibit.note) box.append("   ");
    if (exhibit.note) add("bdi", exhibit.note);
    box.title = box.textContent;
  }

  // Warnings, such as symbols read as unknown.
  warn(lines) {
    const box = document.getElementById("warnings");
    box.hidden = lines.length === 0;
    box.replaceChildren(...lines.map((line) => {
      const p = document.createElement("p");
      p.textContent = isolated(line);
      return p;
    }));
  }

  // The finest grid: layers may see an image at different resolutions.
  finest() {
    if (this.finestOf !== this.store) {
      const grids = this.store.exhibit.layers.filter((layer) => layer.grid).map((layer) => layer.grid);
      this.finestGrid = grids.reduce((best, grid) => (best && best[0] * best[1] >= grid[0] * grid[1] ? best : grid), null);
      this.finestOf = this.store;
    }
    return this.finestGrid;
  }

  // The selected row as a query of a layer: the cell that contains that place of the finest grid.
  queryOf(layer) {
    const { grid, queries } = this.store.exhibit.layers[layer];
    const fine = this.finest();
    if (!grid || !fine) return Math.min(this.row, queries - 1);
    const [r, c] = [Math.floor(this.row / fine[1]), this.row % fine[1]];
    return Math.floor((r * grid[0]) / fine[0]) * grid[1] + Math.floor((c * grid[1]) / fine[1]);
  }

  // Selects the row of a query of the selected layer.
  chooseQuery(query) {
    const { grid } = this.store.exhibit.layers[this.layer];
    const fine = this.finest();
    if (!grid || !fine) {
      this.setRow(query);
      return;
    }
    const [r, c] = [Math.floor(query / grid[1]), query % grid[1]];
    this.setRow(Math.floor(((r + 0.5) * fine[0]) / grid[0]) * fine[1] + Math.floor(((c + 0.5) * fine[1]) / grid[1]));
  }

  rows() {
    const fine = this.finest();
    return fine ? fine[0] * fine[1] : this.store.exhibit.layers[this.layer].queries;
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
    // The same depth as before, if there is one.
    const depth = Math.max(0, Math.min(this.depth || 0, layers.length - 1));
    this.layer = layers[depth];
    this.head = Math.min(this.head || 0, this.store.exhibit.layers[this.layer].heads - 1);
    this.heads = new Set([this.head]);
    this.row = Math.min(this.row, this.rows() - 1);
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

  // Toggles further heads of the layer; one always stays selected.
  toggleHead(head) {
    if (this.heads.has(head) && this.heads.size > 1) this.heads.delete(head);
    else this.heads.add(head);
    if (!this.heads.has(this.head)) this.head = [...this.heads][0];
    this.overview.mark();
    this.load();
  }

  setRow(row) {
    this.row = Math.max(0, Math.min(this.rows() - 1, row));
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

  // at: the pointer, [x, y] on the canvas, where the text is shown too.
  say(text, at = null) {
    document.getElementById("readout").textContent = text;
    const tip = document.getElementById("tip");
    tip.hidden = !text || !at;
    if (tip.hidden) return;
    tip.textContent = text;
    // Towards the middle, so that nothing is measured while the pointer moves; a finger hides what is below it.
    const [x, y] = at;
    const [width, height] = this.size;
    const right = x < width / 2;
    const below = this.touched ? y < 60 : y < height / 2;
    tip.style.left = right ? `${x + 14}px` : "auto";
    tip.style.right = right ? "auto" : `${width - x + 10}px`;
    tip.style.top = below ? `${y + (this.touched ? 30 : 18)}px` : "auto";
    tip.style.bottom = below ? "auto" : `${height - y + (this.touched ? 24 : 10)}px`;
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
    this.theme = new Theme(this.palette, name);
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
    this.size = [width, height];
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
    const name = thing.name();
    const theme = new Theme(this.palette, document.getElementById("paper").value);
    const own = this.theme;
    const draw = (p) => {
      this.theme = theme;
      try {
        thing.draw(p, this.frame.clientWidth, this.frame.clientHeight);
      } finally {
        this.theme = own;
      }
    };
    const blob = await pictureOf(draw, theme, as);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${fileName(name)}.${as}`;
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
    // Two fingers zoom by their distance.
    const fingers = new Map();
    const spread = () => {
      const [[x1, y1], [x2, y2]] = [...fingers.values()];
      return { x: (x1 + x2) / 2, y: (y1 + y2) / 2, apart: Math.max(1, Math.hypot(x1 - x2, y1 - y2)) };
    };
    const lift = (event) => {
      fingers.delete(event.pointerId);
      drag = null;
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.touched = event.pointerType === "touch";
      fingers.set(event.pointerId, place(event));
      drag = { at: place(event), moved: fingers.size > 1 };
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = place(event);
      if (fingers.size === 2 && fingers.has(event.pointerId)) {
        const before = spread();
        fingers.set(event.pointerId, [x, y]);
        const now = spread();
        if (this.view.zoomAt) this.view.zoomAt(now.x, now.y, now.apart / before.apart);
        this.view.drag(now.x - before.x, now.y - before.y);
      } else if (drag) {
        const [dx, dy] = [x - drag.at[0], y - drag.at[1]];
        if (drag.moved || Math.hypot(dx, dy) > 3) {
          drag.moved = true;
          drag.at = [x, y];
          this.say("");
          this.view.drag(dx, dy);
        }
      } else {
        this.view.move(x, y);
      }
    });
    canvas.addEventListener("pointerup", (event) => {
      if (drag && !drag.moved) {
        this.view.click(...place(event));
        // A touch screen has no hover.
        if (this.touched) this.view.move(...place(event));
      }
      lift(event);
    });
    canvas.addEventListener("pointercancel", lift);
    canvas.addEventListener("pointerleave", (event) => {
      if (event.pointerType !== "touch") this.view.leave();
    });
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
    // A focused button keeps its own keys.
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
