import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';

/** A repository of the test server. */
export interface ServedRepository {
  /** Contents by file. */
  readonly files: Readonly<Record<string, string | Uint8Array>>;
  /** The LFS files, which the storage host serves. Default: files whose names end in `.safetensors`. */
  readonly large?: readonly string[];
  /** The revisions that refer to the commit, in addition to `main`. */
  readonly revisions?: readonly string[];
  /** `gated`: only accounts that have been granted access may read it; `private`: only the owner may. */
  readonly access?: 'public' | 'gated' | 'private';
  /** The new name, if the repository was renamed. */
  readonly movedTo?: string;
}

/** A request that the server received. */
export interface ServedRequest {
  /** The requested host: `hub`, or `storage`, which serves large files. */
  readonly host: 'hub' | 'storage';
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly authorization: string | undefined;
  readonly range: string | undefined;
}

/** A fault that is injected once, into the first matching request. */
export interface Fault {
  /** The fault matches a request if the request's path contains this string. */
  readonly path: string;
  readonly host?: 'hub' | 'storage';
  /** Answers with a status and headers. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Ends the connection after this many bytes of the body. */
  readonly cutAfterBytes?: number;
  /** Sends other bytes of the same length. */
  readonly changesBytes?: true;
  /** True to send the whole file even if a range was requested. */
  readonly ignoresRange?: true;
  /** True to send nothing after the headers, and keep the connection open. */
  readonly stalls?: true;
}

/** The token that gives access to gated and private repositories of a `HubServer`, and permits uploads. */
export const servedToken = 'hf_TokenOfTheTests';

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
/** Returns the SHA-1 hash by which Git identifies contents. */
const gitSha1 = (bytes: Uint8Array): string =>
  createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex');
const encodeContent = (content: string | Uint8Array): Buffer => Buffer.from(content as string);

/**
 * A mock of the Hub on this machine. It implements the part of the Hub's API that downloads and uploads use,
 * as described in https://huggingface.co/docs/hub/api and used by huggingface_hub 2.0: the list of files,
 * `resolve` with its headers, redirects of large files to a second host, ranges, error codes, and commits
 * with LFS. It has not been compared with the real Hub.
 */
export class HubServer {
  /** The requests so far. */
  readonly requests: ServedRequest[] = [];
  /** The faults that are still to be injected, each into a matching request. */
  readonly faults: Fault[] = [];
  /** Repositories by name. */
  readonly repositories: Map<string, ServedRepository>;
  /** The repositories that clients have created, with their visibility. */
  readonly created = new Map<string, unknown>();
  /** Large files that were uploaded, by SHA-256. */
  readonly uploaded = new Map<string, Buffer>();
  readonly #hub: Server;
  readonly #storage: Server;

  private constructor(repositories: Readonly<Record<string, ServedRepository>>) {
    this.repositories = new Map(Object.entries(repositories));
    this.#hub = createServer((request, response) => void this.#answer('hub', request, response));
    this.#storage = createServer((request, response) => void this.#answer('storage', request, response));
  }

  /** Starts a server with the given repositories. The caller must close it. */
  static async start(repositories: Readonly<Record<string, ServedRepository>>): Promise<HubServer> {
    const server = new HubServer(repositories);
    await new Promise<void>((listening) => server.#hub.listen(0, '127.0.0.1', listening));
    // this server has a different host name, because clients may compare hosts without their ports
    await new Promise<void>((listening) => server.#storage.listen(0, 'localhost', listening));
    return server;
  }

  /** The value of `HF_ENDPOINT`. */
  get endpoint(): string {
    return `http://127.0.0.1:${(this.#hub.address() as AddressInfo).port}`;
  }

  /** The address of the host that serves large files. */
  get storage(): string {
    return `http://localhost:${(this.#storage.address() as AddressInfo).port}`;
  }

  /** Returns the commit of a repository, which is a hash of its files. */
  hashCommit(name: string): string {
    const { files } = this.repositories.get(name)!;
    const parts = Object.entries(files).map(
      ([file, content]) => `${file} ${gitSha1(encodeContent(content))}\n`,
    );
    return createHash('sha1')
      .update(`${name}\n${parts.sort().join('')}`)
      .digest('hex');
  }

  async close(): Promise<void> {
    for (const server of [this.#hub, this.#storage]) {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #answer(host: 'hub' | 'storage', request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = 'GET', url = '/', headers } = request;
    const { authorization, range } = headers;
    this.requests.push({ host, method, url, authorization, range });
    const body = await readBody(request);
    const at = this.faults.findIndex((each) => url.includes(each.path) && (each.host ?? host) === host);
    const [fault] = at < 0 ? [] : this.faults.splice(at, 1);
    if (fault?.status !== undefined) {
      response.writeHead(fault.status, fault.headers).end('an answer of the test');
      return;
    }
    const call: Call = { request, response, url: new URL(url, 'http://hub'), body, fault };
    if (host === 'storage') this.#answerStorage(call);
    else this.#answerHub(call);
  }

  #answerStorage({ request, response, url, body, fault }: Call): unknown {
    const oid = url.pathname.split('/').at(-1)!;
    if (request.method === 'PUT') {
      if (sha256(body) !== oid) return response.writeHead(400).end('another hash');
      this.uploaded.set(oid, body);
      return response.writeHead(200, { etag: `"${oid}"` }).end();
    }
    for (const { files } of this.repositories.values()) {
      const found = Object.values(files)
        .map(encodeContent)
        .find((bytes) => sha256(bytes) === oid);
      if (found !== undefined)
        return sendBytes(found, { request, response, fault, headers: { etag: `"${oid}"` } });
    }
    response.writeHead(404).end();
  }

  #answerHub(call: Call): unknown {
    const { pathname } = call.url;
    const api = /^\/api\/models\/([^/]+\/[^/]+)(?:\/(revision|tree|preupload|commit)\/([^/]+))?$/.exec(
      pathname,
    );
    const file = /^\/([^/]+\/[^/]+)\/resolve\/([^/]+)\/(.+)$/.exec(pathname);
    const batch = /^\/([^/]+\/[^/]+)\.git\/info\/lfs\/objects\/batch$/.exec(pathname);
    if (pathname === '/api/repos/create') return this.#create(call);
    if (batch !== null) return this.#batch(call);
    const name = (api ?? file)?.[1];
    const repository = name === undefined ? undefined : this.repositories.get(name);
    if (name === undefined || repository === undefined)
      return refuse(call, 401, 'RepoNotFound', 'Repository not found');
    if (!this.#isOpen(call, repository)) return;
    const revision = decodeURIComponent((api === null ? file![2] : api[3]) ?? 'main');
    if (api?.[2] === 'preupload') return this.#preupload(call);
    if (api?.[2] === 'commit') return this.#commit(call, name);
    const known = ['main', this.hashCommit(name), ...(repository.revisions ?? [])];
    if (!known.includes(revision)) return refuse(call, 404, 'RevisionNotFound', 'Invalid rev id');
    if (api !== null) this.#list(call, { name, isTree: api[2] === 'tree' });
    else this.#resolve(call, { name, file: decodeURIComponent(file![3]!) });
  }

  /** Returns true if the request may read the repository; otherwise sends a refusal and returns false. */
  #isOpen(call: Call, { access = 'public', movedTo }: ServedRepository): boolean {
    const { authorization } = call.request.headers;
    if (authorization !== undefined && authorization !== `Bearer ${servedToken}`) {
      refuse(call, 401, undefined, 'Invalid credentials in Authorization header');
      return false;
    }
    if (movedTo !== undefined) {
      const [, owner, model] = /^(?:\/api\/models)?\/([^/]+)\/([^/]+)/.exec(call.url.pathname)!;
      const moved = `${call.url.pathname.replace(`${owner}/${model}`, movedTo)}${call.url.search}`;
      call.response.writeHead(307, { location: moved }).end();
      return false;
    }
    if (access === 'public' || authorization !== undefined) return true;
    if (access === 'private') refuse(call, 401, 'RepoNotFound', 'Repository not found');
    else refuse(call, 401, 'GatedRepo', 'Access to this model is restricted');
    return false;
  }

  #listFiles(name: string): { file: string; bytes: Buffer; isLarge: boolean }[] {
    const { files, large } = this.repositories.get(name)!;
    return Object.entries(files).map(([file, content]) => ({
      file,
      bytes: encodeContent(content),
      isLarge: large?.includes(file) ?? file.endsWith('.safetensors'),
    }));
  }

  #list({ response }: Call, { name, isTree }: { readonly name: string; readonly isTree: boolean }): void {
    const files = this.#listFiles(name);
    const sha = this.hashCommit(name);
    const siblings = files.map(({ file, bytes, isLarge }) => ({
      rfilename: file,
      size: bytes.length,
      blobId: gitSha1(bytes),
      ...(isLarge ? { lfs: { sha256: sha256(bytes), size: bytes.length, pointerSize: 134 } } : {}),
    }));
    const tree = files.map(({ file, bytes, isLarge }) => ({
      type: 'file',
      path: file,
      size: bytes.length,
      oid: gitSha1(bytes),
      ...(isLarge ? { lfs: { oid: sha256(bytes), size: bytes.length, pointerSize: 134 } } : {}),
    }));
    const isPrivate =
      this.repositories.get(name)!.access === 'private' || this.created.get(name) === 'private';
    sendJson(response, isTree ? tree : { id: name, modelId: name, sha, private: isPrivate, siblings });
  }

  #resolve(call: Call, { name, file }: { readonly name: string; readonly file: string }): unknown {
    const found = this.#listFiles(name).find((each) => each.file === file);
    const headers = { 'x-repo-commit': this.hashCommit(name) };
    if (found === undefined) return refuse(call, 404, 'EntryNotFound', 'Entry not found', headers);
    const { bytes, isLarge } = found;
    const { request, response, fault } = call;
    if (!isLarge)
      return sendBytes(bytes, {
        request,
        response,
        fault,
        headers: { ...headers, etag: `"${gitSha1(bytes)}"` },
      });
    const oid = sha256(bytes);
    const linked = { 'x-linked-etag': `"${oid}"`, 'x-linked-size': `${bytes.length}` };
    response.writeHead(302, { ...headers, ...linked, location: `${this.storage}/objects/${oid}` }).end();
  }

  #create(call: Call): unknown {
    if (!isOwner(call)) return;
    const { name, organization, visibility } = JSON.parse(call.body.toString()) as Record<string, string>;
    const id = `${organization}/${name}`;
    if (this.repositories.has(id)) return refuse(call, 409, undefined, 'You already created this model repo');
    this.created.set(id, visibility);
    this.repositories.set(id, { files: {} });
    sendJson(call.response, { url: `${this.endpoint}/${id}`, id });
  }

  #preupload(call: Call): unknown {
    if (!isOwner(call)) return;
    const { files } = JSON.parse(call.body.toString()) as { files: { path: string }[] };
    const isLarge = (path: string): boolean => /\.(?:safetensors|gguf)$/.test(path);
    sendJson(call.response, {
      files: files.map(({ path }) => ({
        path,
        uploadMode: isLarge(path) ? 'lfs' : 'regular',
        shouldIgnore: false,
      })),
    });
  }

  #batch(call: Call): unknown {
    if (!isOwner(call)) return;
    const { objects } = JSON.parse(call.body.toString()) as { objects: { oid: string; size: number }[] };
    sendJson(call.response, {
      transfer: 'basic',
      objects: objects.map(({ oid, size }) => ({
        oid,
        size,
        ...(this.uploaded.has(oid)
          ? {}
          : { actions: { upload: { href: `${this.storage}/objects/${oid}` } } }),
      })),
    });
  }

  #commit(call: Call, name: string): unknown {
    if (!isOwner(call)) return;
    const lines = call.body.toString().trim().split('\n');
    const operations = lines.map(
      (line) => JSON.parse(line) as { key: string; value: Record<string, string> },
    );
    const files: Record<string, string | Uint8Array> = { ...this.repositories.get(name)!.files };
    for (const { key, value } of operations) {
      if (key === 'file') files[value.path!] = Buffer.from(value.content!, 'base64');
      const large = key === 'lfsFile' ? this.uploaded.get(value.oid!) : undefined;
      if (key === 'lfsFile' && large === undefined)
        return refuse(call, 400, undefined, 'an LFS object is missing');
      if (large !== undefined) files[value.path!] = large;
    }
    this.repositories.set(name, { ...this.repositories.get(name), files });
    const commitOid = this.hashCommit(name);
    sendJson(call.response, {
      success: true,
      commitOid,
      commitUrl: `${this.endpoint}/${name}/commit/${commitOid}`,
    });
  }
}

interface Call {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly url: URL;
  readonly body: Buffer;
  readonly fault: Fault | undefined;
}

/** Returns true if the request may change repositories; otherwise sends a refusal and returns false. */
function isOwner(call: Call): boolean {
  const { authorization } = call.request.headers;
  if (authorization === `Bearer ${servedToken}`) return true;
  if (authorization === undefined) refuse(call, 401, undefined, 'Invalid username or password.');
  else refuse(call, 403, undefined, 'You have no right to write');
  return false;
}

function refuse(
  { response }: Pick<Call, 'response'>,
  status: number,
  code: string | undefined,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, {
    ...headers,
    ...(code === undefined ? {} : { 'x-error-code': code }),
    'x-error-message': message,
    'content-type': 'application/json',
  });
  response.end(JSON.stringify({ error: message }));
}

function sendJson(response: ServerResponse, value: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/** Sends a whole file, or the range that was requested. */
function sendBytes(
  whole: Buffer,
  {
    request,
    response,
    fault,
    headers,
  }: Pick<Call, 'request' | 'response' | 'fault'> & {
    readonly headers: Readonly<Record<string, string>>;
  },
): unknown {
  const asked =
    fault?.ignoresRange === true ? undefined : /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '');
  const first = Number(asked?.[1] ?? 0);
  if (asked != null && first >= whole.length) {
    return response.writeHead(416, { 'content-range': `bytes */${whole.length}` }).end();
  }
  const last = asked?.[2] === undefined || asked[2] === '' ? whole.length - 1 : Number(asked[2]);
  const part = whole.subarray(first, last + 1);
  const sent = fault?.changesBytes === true ? Buffer.from(part.map((byte) => byte ^ 1)) : part;
  // like the Hub, compresses text files, so that the answer's length differs from the file's length
  const isZipped =
    asked == null && /gzip/.test(`${request.headers['accept-encoding'] ?? ''}`) && whole.length < 4096;
  const coded = isZipped ? gzipSync(sent) : sent;
  response.writeHead(asked == null ? 200 : 206, {
    ...headers,
    'accept-ranges': 'bytes',
    ...(isZipped ? { 'content-encoding': 'gzip' } : { 'content-length': coded.length }),
    ...(asked == null ? {} : { 'content-range': `bytes ${first}-${last}/${whole.length}` }),
  });
  if (request.method === 'HEAD') return response.end();
  if (fault?.stalls === true) return response.flushHeaders();
  if (fault?.cutAfterBytes === undefined) return response.end(coded);
  response.write(coded.subarray(0, fault.cutAfterBytes), () => response.destroy());
}
