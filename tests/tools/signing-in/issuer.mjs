// An authorization server for the test of signing in: client credentials, and tokens as it is told to make them.

import { generateKeyPairSync, randomUUID, sign } from "node:crypto";
import { createServer } from "node:http";

const encoded = (object) => Buffer.from(JSON.stringify(object)).toString("base64url");

export class Issuer {
  // client: { id, secret } of the one agent that it knows.
  constructor(client) {
    this.client = client;
    // What it was asked for, in order: the form's members and what was answered.
    this.asked = [];
    // What its tokens say otherwise than good ones.
    this.otherwise = {};
    this.rotate();
  }

  // From now on it signs with a new key, and publishes that one only.
  rotate() {
    const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    this.key = privateKey;
    this.jwk = { ...publicKey.export({ format: "jwk" }), use: "sig", alg: "ES256", kid: randomUUID() };
  }

  async start() {
    this.server = createServer((request, response) => {
      let body = "";
      request.on("data", (part) => (body += part));
      request.on("end", () => this.answer(request, body, response));
    });
    await new Promise((ready) => this.server.listen(0, "127.0.0.1", ready));
    this.url = `http://127.0.0.1:${this.server.address().port}`;
    return this;
  }

  stop() {
    this.server.close();
    this.server.closeAllConnections();
  }

  answer(request, body, response) {
    const json = (status, object) => {
      response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store" });
      response.end(JSON.stringify(object));
    };
    if (request.url === "/.well-known/oauth-authorization-server") return json(200, this.metadata());
    if (request.url === "/keys") return json(200, { keys: [this.jwk] });
    if (request.url === "/token" && request.method === "POST") return this.token(request, new URLSearchParams(body), json);
    return json(404, { error: "not_found" });
  }

  metadata() {
    return {
      issuer: this.url,
      authorization_endpoint: `${this.url}/authorize`,
      token_endpoint: `${this.url}/token`,
      jwks_uri: `${this.url}/keys`,
      response_types_supported: ["code"],
      code_challenge_methods_supported: ["S256"],
      grant_types_supported: ["client_credentials"],
      token_endpoint_auth_methods_supported: ["client_secret_basic"],
    };
  }

  token(request, form, json) {
    const proof = Buffer.from(`${this.client.id}:${this.client.secret}`).toString("base64");
    const known = request.headers.authorization === `Basic ${proof}`;
    this.asked.push({ ...Object.fromEntries(form), known });
    if (!known) return json(401, { error: "invalid_client" });
    const scope = this.otherwise.scope ?? form.get("scope") ?? "";
    const token = this.issue(Object.fromEntries(form), this.otherwise);
    return json(200, { access_token: token, token_type: "Bearer", expires_in: 600, scope });
  }

  // A token for what a form asks, which says `otherwise` where that says something.
  issue({ resource, scope = "" }, otherwise) {
    const now = Math.floor(Date.now() / 1000);
    const { id } = this.client;
    const said = { iss: this.url, aud: resource, azp: id, sub: id, iat: now, exp: now + 600, scope, ...otherwise };
    const signed = `${encoded({ alg: "ES256", typ: "JWT", kid: this.jwk.kid })}.${encoded(said)}`;
    const signature = sign("sha256", Buffer.from(signed), { key: this.key, dsaEncoding: "ieee-p1363" });
    return `${signed}.${signature.toString("base64url")}`;
  }
}
