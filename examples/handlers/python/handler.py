"""An HTTP handler for orders, with the standard library only."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

handled = set()  # In a real handler: a table, written in the transaction that does the work.


class Orders(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # Keeps the connection open between messages.

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        key = self.headers["Idempotency-Key"]
        if key in handled:
            return self.answer(204)
        try:
            order = json.loads(body)
        except ValueError as error:
            return self.answer(400, body=str(error))
        if order.get("flaky") and self.headers["redrive-attempt"] == "1":
            return self.answer(503, {"Retry-After": "1"}, "the warehouse is closed")
        if order.get("quantity", 0) > 100:
            return self.answer(200, {"redrive-verdict": "park", "redrive-reason": "TOO_MANY"})
        handled.add(key)
        self.answer(204)

    def answer(self, status, headers=None, body=""):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "3000"))), Orders)
print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
