// Where weights come from. Both stores give a head's summary, a part of its map in a number of cells (the largest
// weight of each), and one query's row for all heads of a layer.

function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let n = 0; n < text.length; ++n) bytes[n] = text.charCodeAt(n);
  return bytes;
}

// Every f16 as a number.
const halfTable = (() => {
  const table = new Float32Array(65536);
  for (let bits = 0; bits < 65536; ++bits) {
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    let value = exponent === 31 ? (fraction ? NaN : Infinity)
      : exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15);
    table[bits] = bits & 0x8000 ? -value : value;
  }
  return table;
})();

function floatsOf(halves) {
  const floats = new Float32Array(halves.length);
  for (let n = 0; n < halves.length; ++n) floats[n] = halfTable[halves[n]];
  return floats;
}

// Answers are cached; the least recently used is dropped first.
class Cache {
  constructor(most) {
    this.most = most;
    this.entries = new Map();
  }
  get(key, make) {
    let entry = this.entries.get(key);
    if (entry) this.entries.delete(key);
    else {
      entry = make();
      entry.catch(() => this.entries.delete(key));
    }
    this.entries.set(key, entry);
    if (this.entries.size > this.most) this.entries.delete(this.entries.keys().next().value);
    return entry;
  }
}

class EmbeddedStore {
  constructor(data) {
    this.exhibit = data.exhibit;
    this.summaries = data.summaries;
    this.heads = new Cache(4096);
  }

  async summary(layer, head) {
    return this.summaries[layer][head];
  }

  // The whole of a head, as f16.
  head(layer, head) {
    return this.heads.get(`${layer}-${head}`, async () => {
      const packed = bytesOf(document.getElementById(`w${layer}-${head}`).textContent);
      const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
      return new Uint16Array(await new Response(stream).arrayBuffer());
    });
  }

  async map(layer, head, part, height, width) {
    const halves = await this.head(layer, head);
    const keys = this.exhibit.layers[layer].keys;
    const rows = part.bottom - part.top;
    const cols = part.right - part.left;
    const high = Math.min(height, rows);
    const wide = Math.min(width, cols);
    const cells = new Float32Array(high * wide);
    const place = new Int32Array(cols);
    for (let j = 0; j < cols; ++j) place[j] = Math.floor((j * wide) / cols);
    for (let i = 0; i < rows; ++i) {
      const to = Math.floor((i * high) / rows) * wide;
      const from = (part.top + i) * keys + part.left;
      for (let j = 0; j < cols; ++j) {
        const value = halfTable[halves[from + j]];
        if (value > cells[to + place[j]]) cells[to + place[j]] = value;
      }
    }
    return { rows: high, cols: wide, cells };
  }

  async row(layer, row) {
    const { heads, keys } = this.exhibit.layers[layer];
    const cells = new Float32Array(heads * keys);
    for (let h = 0; h < heads; ++h) {
      const halves = await this.head(layer, h);
      for (let j = 0; j < keys; ++j) cells[h * keys + j] = halfTable[halves[row * keys + j]];
    }
    return { rows: heads, cols: keys, cells };
  }
}

class ServedStore {
  constructor(answer) {
    this.id = answer.id;
    this.exhibit = answer.exhibit;
    this.cache = new Cache(256);
    this.summaryCache = new Cache(65536);
  }

  static async ask(path, body) {
    const options = body === undefined ? {}
      : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
    const response = await fetch(path, options);
    if (response.ok) return response;
    let message = `the server answered ${response.status}`;
    try {
      message = (await response.json()).error || message;
    } catch {
      // Not JSON: the status says it all.
    }
    throw new Error(message);
  }

  static async open(path, body) {
    return new ServedStore(await (await ServedStore.ask(path, body)).json());
  }

  async numbers(path, query) {
    const all = new URLSearchParams({ id: this.id, ...query });
    return this.cache.get(`${path}?${all}`, async () => {
      const response = await ServedStore.ask(`${path}?${all}`);
      const cells = floatsOf(new Uint16Array(await response.arrayBuffer()));
      return { rows: +response.headers.get("X-Rows"), cols: +response.headers.get("X-Cols"), cells };
    });
  }

  summary(layer, head) {
    return this.summaryCache.get(`${layer}-${head}`, async () => {
      const query = new URLSearchParams({ id: this.id, layer, head });
      return (await ServedStore.ask(`/api/head?${query}`)).json();
    });
  }

  map(layer, head, part, height, width) {
    return this.numbers("/api/map", { layer, head, ...part, height, width });
  }

  row(layer, row) {
    return this.numbers("/api/row", { layer, row });
  }
}

