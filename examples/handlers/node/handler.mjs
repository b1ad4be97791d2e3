// An HTTP handler for orders, with the standard library only.
import { createServer } from "node:http";

const handled = new Set(); // In a real handler: a table, written in the transaction that does the work.

function answerTo(headers, body) {
  const key = headers["idempotency-key"];
  if (handled.has(key)) return { status: 204 };
  let order;
  try {
    order = JSON.parse(body);
  } catch (error) {
    return { status: 400, body: error.message };
  }
  if (order.flaky && headers["redrive-attempt"] === "1") {
    return { status: 503, headers: { "retry-after": "1" }, body: "the warehouse is closed" };
  }
  if (order.quantity > 100) {
    return { status: 200, headers: { "redrive-verdict": "park", "redrive-reason": "TOO_MANY" } };
  }
  handled.add(key);
  return { status: 204 };
}

const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const answer = answerTo(request.headers, Buffer.concat(chunks).toString());
  response.writeHead(answer.status, answer.headers).end(answer.body);
});

server.listen(Number(process.env.PORT ?? 3000), "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
});
