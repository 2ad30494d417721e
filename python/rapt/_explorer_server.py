"""What the explorer's page asks for, answered by this process: the interface of src/explorer/server.cc."""

import collections
import http.server
import json
import threading
import urllib.parse
import weakref

import numpy as np

_MOST_NUMBERS = 1 << 22  # of one answer


# Notebooks keep what they show, not what showed it: the last explorers stay, as each open page uses one.
_kept = collections.deque(maxlen=8)


class _BadRequest(Exception):
    pass


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10

    def log_message(self, *_):
        pass

    def do_GET(self):
        """Errors become answers; pages of other addresses get none."""
        try:
            if not self._is_allowed():
                self._fail(403, "expected this server's own address, got another")
                return
            explorer = self.server.explorer()
            if explorer is None:
                self._fail(404, "the explorer is gone")
                return
            path, _, query = self.path.partition("?")
            asked = dict(urllib.parse.parse_qsl(query))
            if path == "/":
                self._send(self.server.page.encode(), "text/html; charset=utf-8")
            elif path == "/api/exhibit":
                self._send_json({"id": 1, "exhibit": explorer.exhibit()})
            elif path in ("/api/head", "/api/map", "/api/row"):
                with self.server.engine:  # one computation at a time: each uses all processors
                    getattr(self, "_" + path[5:])(explorer, asked)
            else:
                self._fail(404, "there is no such page")
        except _BadRequest as error:
            self._fail(400, str(error))
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            self.close_connection = True
        except Exception as error:  # noqa: BLE001  the page shows it
            self._fail(500, str(error))

    def _is_allowed(self):
        own = {f"127.0.0.1:{self.server.server_port}", f"localhost:{self.server.server_port}"}
        origin = self.headers.get("Origin")
        return self.headers.get("Host") in own and (origin is None or origin.removeprefix("http://") in own)

    def _send(self, body, kind, headers=(), status=200):
        self.send_response(status)
        for name, value in (("Content-Type", kind), ("Content-Length", len(body)), ("Cache-Control", "no-store"), *headers):
            self.send_header(name, str(value))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def _send_json(self, value, status=200):
        self._send(json.dumps(value).encode(), "application/json", status=status)

    def _fail(self, status, message):
        self._send_json({"error": message}, status)

    def _send_numbers(self, cells):
        headers = (("X-Rows", cells.shape[0]), ("X-Cols", cells.shape[1]))
        self._send(np.ascontiguousarray(cells, "<f2").tobytes(), "application/octet-stream", headers)

    @staticmethod
    def _number(asked, name, low, high):
        text = asked.get(name, "")
        if not text.isdigit() or not low <= int(text) <= high:
            raise _BadRequest(f"{name}: expected a whole number from {low} to {high}, got '{text}'")
        return int(text)

    def _layer(self, explorer, asked):
        layer = self._number(asked, "layer", 0, len(explorer) - 1)
        return layer, explorer.layers[layer]

    def _head(self, explorer, asked):
        layer, one = self._layer(explorer, asked)
        self._send_json(explorer.summary(layer, self._number(asked, "head", 0, one.heads - 1)))

    def _map(self, explorer, asked):
        layer, one = self._layer(explorer, asked)
        head = self._number(asked, "head", 0, one.heads - 1)
        top = self._number(asked, "top", 0, one.queries - 1)
        bottom = self._number(asked, "bottom", top + 1, one.queries)
        left = self._number(asked, "left", 0, one.keys - 1)
        right = self._number(asked, "right", left + 1, one.keys)
        height = self._number(asked, "height", 1, 4096)
        width = self._number(asked, "width", 1, _MOST_NUMBERS // height)
        self._send_numbers(explorer.pooled(layer, head, (top, bottom, left, right), height, width))

    def _row(self, explorer, asked):
        layer, one = self._layer(explorer, asked)
        row = self._number(asked, "row", 0, one.queries - 1)
        self._send_numbers(np.concatenate([explorer.rows(layer, head, row, row + 1) for head in range(one.heads)]))


class _HttpServer(http.server.ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = False  # two servers on one port would share what is asked of either


class Server:
    """Serves an explorer, on this machine alone, until it is gone and several others were served."""

    def __init__(self, explorer, page):
        server = _HttpServer(("127.0.0.1", 0), _Handler)
        server.explorer, server.page, server.engine = weakref.ref(explorer), page, threading.Lock()
        self.address = f"http://127.0.0.1:{server.server_port}/"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        weakref.finalize(explorer, self._close, server)
        _kept.append(explorer)

    @staticmethod
    def _close(server):
        server.shutdown()
        server.server_close()
