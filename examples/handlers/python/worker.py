"""A worker for orders that speaks JSON lines: one message a line in, one answer a line out."""

import base64
import json
import sys

handled = set()  # In a real worker: a table, written in the transaction that does the work.


def handle(message):
    """Answers the fields beside the id; none of them means that the order is done."""
    if message["id"] in handled:
        return {}
    if "body_base64" in message:
        body = base64.b64decode(message["body_base64"])
    else:
        body = message["body"] or ""
    order = json.loads(body)
    if order.get("flaky") and message["attempt"] == 1:
        return {"verdict": "retry-after=1s", "error": "the warehouse is closed"}
    if order.get("quantity", 0) > 100:
        return {"verdict": "park", "reason": "TOO_MANY"}
    handled.add(message["id"])
    return {}


for line in sys.stdin:
    message = json.loads(line)
    try:
        answer = handle(message)
    except Exception as error:  # The type decides whether a retry makes sense.
        answer = {"error": {"type": type(error).__name__, "message": str(error)}}
    print(json.dumps({"id": message["id"], "attempt": message["attempt"], **answer}), flush=True)
