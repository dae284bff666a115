// A peer of the service: Node's vm served by Node's HTTP server, with as much of its interface as service_load asks for. There is
// no wall in it and no limit; it shows what HTTP and a fresh context of V8 cost.

import { createServer } from "node:http";
import { createContext, runInContext } from "node:vm";

const sandboxes = new Map();
let made = 0;

function answer(response, status, body) {
  const text = body === undefined ? "" : JSON.stringify(body);
  response.writeHead(status, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(text) });
  response.end(text);
}

function create() {
  const id = `sbx${++made}`;
  const out = [];
  const context = createContext({ print: (text) => out.push(`${text}\n`) });
  sandboxes.set(id, { context, out });
  return { id };
}

function exec(id, { code }) {
  const { context, out } = sandboxes.get(id);
  out.length = 0;
  runInContext(code, context);
  return { outcome: "ok", stdout: out.join("") };
}

const server = createServer((request, response) => {
  const pieces = [];
  request.on("data", (piece) => pieces.push(piece));
  request.on("end", () => {
    const body = pieces.length > 0 ? JSON.parse(Buffer.concat(pieces)) : {};
    const [, , , id] = request.url.split("/");
    if (request.method === "DELETE") return answer(response, sandboxes.delete(id) ? 204 : 404);
    if (id === undefined) return answer(response, 201, create());
    return answer(response, 200, exec(id, body));
  });
});
server.listen(0, "127.0.0.1", () => console.log(`port ${server.address().port}`));
