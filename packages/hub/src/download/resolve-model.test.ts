import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer, request as httpRequest, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { HubCache } from '../cache/hub-cache.js';
import { parseGgufFile } from '../repository.js';
import { HubServer, type ServedRepository, servedToken } from '../testing/index.js';
import { claimPartialFile } from './partial-file.js';
import { type ResolveModelOptions, resolveModel } from './resolve-model.js';

const weights = Buffer.from(Array.from({ length: 200_000 }, (_, at) => (at * 7) % 251));
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

const model: ServedRepository = {
  files: {
    'config.json': '{"model_type": "llama"}',
    'tokenizer.json': '{"version": "1.0"}',
    'additional_chat_templates/tools.jinja': '{{ messages }}',
    'model.safetensors': weights,
    'README.md': '# a model',
    'pytorch_model.bin': 'a pickle',
    'picture.png': 'a picture',
    'onnx/model.onnx': 'another format',
  },
  revisions: ['v1', 'refs/pr/1'],
};

let server: HubServer;
let home: string;
let messages: string[];
beforeEach(async () => {
  server = await HubServer.start({ 'org/small': model });
  home = mkdtempSync(join(tmpdir(), 'mtl-hub-'));
  messages = [];
});
afterEach(async () => {
  await server.close();
  rmSync(home, { recursive: true, force: true });
});

const options = (
  changed: Record<string, string> = {},
): ResolveModelOptions & { environment: Record<string, string> } => ({
  environment: { HF_ENDPOINT: server.endpoint, HF_HOME: home, ...changed },
  onMessage: (text) => void messages.push(text),
  patience: { firstWaitMs: 1, mostAttempts: 3, stallMs: 200 },
});
const folder = (): string => join(home, 'hub', 'models--org--small');
const error = (code: string, words: RegExp = /./) => ({
  code,
  message: expect.stringMatching(words),
  remedy: expect.stringMatching(/./),
});
const pathsTo = (host: 'hub' | 'storage'): string[] =>
  server.requests.filter((request) => request.host === host).map(({ url }) => url);

describe('a model that is fetched', () => {
  it('gets only the files that are needed, in the layout of the shared cache', async () => {
    const found = await resolveModel('org/small', options());
    const commit = server.hashCommit('org/small');
    expect(found).toEqual({
      directory: join(folder(), 'snapshots', commit),
      name: 'org/small',
      commit,
      fetchedBytes: weights.length + 23 + 18 + 14,
    });
    expect(readdirSync(found.directory, { recursive: true }).sort()).toEqual([
      'additional_chat_templates',
      'additional_chat_templates/tools.jinja',
      'config.json',
      'model.safetensors',
      'tokenizer.json',
    ]);
    expect(readFileSync(join(found.directory, 'model.safetensors')).equals(weights)).toBe(true);
    expect(readlinkSync(join(found.directory, 'model.safetensors'))).toBe(`../../blobs/${sha256(weights)}`);
    expect(readlinkSync(join(found.directory, 'additional_chat_templates', 'tools.jinja'))).toMatch(
      /^\.\.\/\.\.\/\.\.\/blobs\/[0-9a-f]{40}$/,
    );
    expect(readFileSync(join(folder(), 'refs', 'main'), 'utf8')).toBe(commit);
    expect(readdirSync(join(folder(), 'blobs')).filter((name) => name.includes('.'))).toEqual([]);
    expect(existsSync(join(home, 'hub', 'CACHEDIR.TAG'))).toBe(true);
    expect(messages).toEqual([
      `fetching org/small at ${commit.slice(0, 8)} from ${new URL(server.endpoint).host}: 4 files, 200 kB, into ${join(home, 'hub')}`,
    ]);
  });

  it('is not fetched again, and another revision of the same commit neither', async () => {
    await resolveModel('org/small', options());
    server.requests.length = 0;
    messages = [];
    expect((await resolveModel('org/small@v1', options())).fetchedBytes).toBe(0);
    expect(pathsTo('hub')).toEqual(['/api/models/org/small/revision/v1?blobs=true']);
    expect(messages).toEqual([]);
    expect((await resolveModel('org/small@refs/pr/1', options())).fetchedBytes).toBe(0);
    expect(readFileSync(join(folder(), 'refs', 'refs', 'pr', '1'), 'utf8')).toBe(
      server.hashCommit('org/small'),
    );
  });

  it('may be the tokenizer or the configuration alone', async () => {
    const found = await resolveModel('org/small', { ...options(), part: 'tokenizer' });
    expect(readdirSync(found.directory).sort()).toEqual([
      'additional_chat_templates',
      'config.json',
      'tokenizer.json',
    ]);
    expect(pathsTo('storage')).toEqual([]);
    server.repositories.set('org/lora', {
      files: { 'adapter_config.json': '{}', 'adapter_model.safetensors': 'x', 'adapter_model.bin': 'x' },
    });
    const adapter = await resolveModel('org/lora', { ...options(), part: 'adapter' });
    expect(readdirSync(adapter.directory).sort()).toEqual([
      'adapter_config.json',
      'adapter_model.safetensors',
    ]);
    await expect(resolveModel('org/lora', options())).rejects.toMatchObject(
      error('MTL_HUB_FILE', /config\.json/),
    );
  });

  it('has the files of weights that its index names, and no others', async () => {
    const map = { 'a.weight': 'model-1.safetensors', 'b.weight': 'model-2.safetensors' };
    server.repositories.set('org/large', {
      files: {
        'config.json': '{}',
        'model.safetensors.index.json': JSON.stringify({ weight_map: map }),
        'model-1.safetensors': 'one',
        'model-2.safetensors': 'two',
        'consolidated.safetensors': 'the same again',
      },
    });
    const { directory } = await resolveModel('org/large', options());
    expect(readdirSync(directory).sort()).toEqual([
      'config.json',
      'model-1.safetensors',
      'model-2.safetensors',
      'model.safetensors.index.json',
    ]);
    const offline = options({ HF_HUB_OFFLINE: '1' });
    expect((await resolveModel('org/large', offline)).directory).toBe(directory);
    rmSync(join(directory, 'model-2.safetensors'));
    await expect(resolveModel('org/large', offline)).rejects.toMatchObject(error('MTL_HUB_OFFLINE'));
  });

  it.each(['../../escape.safetensors', 'model-9.safetensors', 'sub/model.safetensors', 'weights.bin'])(
    'is refused where its index names %s',
    async (file) => {
      server.repositories.set('org/odd', {
        files: {
          'config.json': '{}',
          'model.safetensors.index.json': JSON.stringify({ weight_map: { a: file } }),
        },
      });
      await expect(resolveModel('org/odd', options())).rejects.toMatchObject(error('MTL_HUB_FILE'));
    },
  );

  it('may be one GGUF file, and no other is fetched', async () => {
    const files = { 'small-Q8_0.gguf': 'eight bits', 'q4/small.gguf': 'four', 'config.json': '{}' };
    server.repositories.set('org/gguf', { files });
    const { model, file } = parseGgufFile('org/gguf/q4/small.gguf@main')!;
    const found = await resolveModel(model, { ...options(), part: { file } });
    expect(readFileSync(join(found.directory, file), 'utf8')).toBe('four');
    expect(existsSync(join(found.directory, 'small-Q8_0.gguf'))).toBe(false);
    const offline = options({ HF_HUB_OFFLINE: '1' });
    expect((await resolveModel(model, { ...offline, part: { file } })).directory).toBe(found.directory);
    await expect(resolveModel(model, { ...options(), part: { file: 'none.gguf' } })).rejects.toMatchObject({
      ...error('MTL_HUB_FILE', /org\/gguf has no none\.gguf/),
      expected: 'one of q4/small.gguf, small-Q8_0.gguf',
    });
  });

  it.each([
    ['org/small', undefined],
    ['small.gguf', undefined],
    ['org/small.gguf', undefined],
    ['/org/small/model.gguf', undefined],
    ['org/small/../model.gguf', undefined],
    ['org/small/model.bin', undefined],
    ['org/small/model.gguf', { model: 'org/small', file: 'model.gguf' }],
    ['org/small/a/b.gguf@refs/pr/1', { model: 'org/small@refs/pr/1', file: 'a/b.gguf' }],
  ])('%s names the GGUF file %j', (text, expected) => {
    expect(parseGgufFile(text)).toEqual(expected);
  });

  it('is refused where its weights are pickles alone', async () => {
    server.repositories.set('org/old', { files: { 'config.json': '{}', 'pytorch_model.bin': 'a pickle' } });
    await expect(resolveModel('org/old', options())).rejects.toMatchObject(error('MTL_HUB_FILE', /pickle/));
    expect(pathsTo('hub')).toHaveLength(1);
  });
});

describe('the access token', () => {
  it('goes to the host of HF_ENDPOINT alone, not to the storage of large files', async () => {
    server.repositories.set('org/secret', { ...model, access: 'private' });
    await resolveModel('org/secret', options({ HF_TOKEN: servedToken }));
    const of = (host: string) =>
      new Set(server.requests.filter((each) => each.host === host).map((each) => each.authorization));
    expect(of('hub')).toEqual(new Set([`Bearer ${servedToken}`]));
    expect(of('storage')).toEqual(new Set([undefined]));
  });

  it('goes to the new name of a repository on the same host', async () => {
    server.repositories.set('org/new', { ...model, access: 'private' });
    server.repositories.set('org/old', { files: {}, movedTo: 'org/new' });
    expect((await resolveModel('org/old', options({ HF_TOKEN: servedToken }))).fetchedBytes).toBeGreaterThan(
      0,
    );
  });

  it('may be in the file that logging in writes', async () => {
    server.repositories.set('org/secret', { ...model, access: 'private' });
    writeFileSync(join(home, 'token'), `${servedToken}\n`);
    await resolveModel('org/secret', options());
    rmSync(join(home, 'hub'), { recursive: true });
    const none = options({ HF_HUB_DISABLE_IMPLICIT_TOKEN: '1' });
    await expect(resolveModel('org/secret', none)).rejects.toMatchObject(error('MTL_HUB_NONE'));
  });

  it('is in no message', async () => {
    server.faults.push({
      path: '/api/',
      status: 400,
      headers: { 'x-error-message': `odd token ${servedToken}` },
    });
    const refused = await resolveModel('org/small', options({ HF_TOKEN: servedToken })).catch(
      (thrown: unknown) => thrown,
    );
    expect(refused).toMatchObject(error('MTL_HUB_ANSWER', /odd token \*\*\*/));
    expect(JSON.stringify(refused)).not.toContain(servedToken);
  });
});

describe('a download', () => {
  const blob = (): string => join(folder(), 'blobs', sha256(weights));
  const ranges = (): (string | undefined)[] =>
    server.requests.filter(({ host }) => host === 'storage').map(({ range }) => range);

  it('goes on where the connection broke', async () => {
    server.faults.push({ path: '/objects/', cutAfterBytes: 90_000 });
    await resolveModel('org/small', options());
    expect(readFileSync(blob()).equals(weights)).toBe(true);
    const [first, second] = ranges();
    expect(first).toBeUndefined();
    expect(second).toMatch(/^bytes=[1-9]\d*-$/);
    expect(ranges()).toHaveLength(2);
  });

  it('goes on in a later call from what an interrupted process has left', async () => {
    mkdirSync(join(folder(), 'blobs'), { recursive: true });
    // no process has this number
    const host = await partialHost();
    writeFileSync(`${blob()}.${host}-4194305-1.incomplete`, weights.subarray(0, 150_000));
    await resolveModel('org/small', options());
    expect(ranges()).toEqual(['bytes=150000-']);
    expect(readFileSync(blob()).equals(weights)).toBe(true);
    expect(readdirSync(join(folder(), 'blobs')).filter((name) => name.endsWith('.incomplete'))).toEqual([]);
  });

  it('leaves the file of a process that is alive alone', async () => {
    mkdirSync(join(folder(), 'blobs'), { recursive: true });
    const other = `${blob()}.${await partialHost()}-${process.ppid}-1.incomplete`;
    writeFileSync(other, weights.subarray(0, 150_000));
    await resolveModel('org/small', options());
    expect(ranges()).toEqual([undefined]);
    expect(existsSync(other)).toBe(true);
  });

  it('starts over where the server ignores the range', async () => {
    server.faults.push(
      { path: '/objects/', cutAfterBytes: 90_000 },
      { path: '/objects/', ignoresRange: true },
    );
    await resolveModel('org/small', options());
    expect(readFileSync(blob()).equals(weights)).toBe(true);
  });

  it('takes a connection without bytes for broken', async () => {
    server.faults.push({ path: '/objects/', stalls: true });
    await resolveModel('org/small', options());
    expect(readFileSync(blob()).equals(weights)).toBe(true);
  });

  it.each(['model.safetensors', 'config.json'])(
    'of other bytes for %s is refused and thrown away',
    async (file) => {
      const path =
        file === 'config.json' ? `/resolve/${server.hashCommit('org/small')}/config.json` : '/objects/';
      server.faults.push({ path, changesBytes: true });
      await expect(resolveModel('org/small', options())).rejects.toMatchObject(
        error('MTL_HUB_HASH', new RegExp(file)),
      );
      expect(existsSync(join(folder(), 'refs', 'main'))).toBe(false);
      await resolveModel('org/small', options());
      expect(readFileSync(blob()).equals(weights)).toBe(true);
    },
  );

  it('ends with one error where the connection keeps breaking, and keeps what arrived', async () => {
    for (let at = 0; at < 3; at++) server.faults.push({ path: '/objects/', cutAfterBytes: 0 });
    await expect(resolveModel('org/small', options())).rejects.toMatchObject(error('MTL_HUB_UNREACHABLE'));
    await resolveModel('org/small', options());
    expect(readFileSync(blob()).equals(weights)).toBe(true);
  });

  it('is not begun where the disk lacks space', async () => {
    const cache = new HubCache(home, 'org/huge');
    await cache.open();
    await expect(cache.checkSpace(Number.MAX_SAFE_INTEGER)).rejects.toMatchObject(
      error('MTL_HUB_DISK', /needs 9007 TB more/),
    );
  });

  it('ends with one error where the disk becomes full', async () => {
    mkdirSync(join(folder(), 'blobs'), { recursive: true });
    // a partial file whose process has ended, on a device that is always full
    symlinkSync('/dev/full', `${blob()}.${await partialHost()}-4194305-1.incomplete`);
    await expect(resolveModel('org/small', options())).rejects.toMatchObject(
      error('MTL_HUB_DISK', /needs 200 kB more in .*, where the disk is full/),
    );
  });
});

/** Returns the identifier of this host in the names of partial files. */
async function partialHost(): Promise<string> {
  return /\.([0-9a-f]{8})-\d+-\d+\.incomplete$/.exec(await claimPartialFile('/no/such/blob'))![1]!;
}

describe('the Hub refuses', () => {
  it('a gated model, with the way in', async () => {
    server.repositories.set('org/gated', { ...model, access: 'gated' });
    await expect(resolveModel('org/gated', options())).rejects.toMatchObject({
      ...error('MTL_HUB_GATED'),
      remedy: expect.stringContaining(`accept its terms at ${server.endpoint}/org/gated`),
      exitCode: 2,
    });
    expect(
      (await resolveModel('org/gated', options({ HF_TOKEN: servedToken }))).fetchedBytes,
    ).toBeGreaterThan(0);
  });

  it('a model that does not exist or is private', async () => {
    server.faults.push({ path: 'org/none', status: 401, headers: { 'x-error-code': 'RepoNotFound' } });
    await expect(resolveModel('org/none', options())).rejects.toMatchObject({
      ...error('MTL_HUB_NONE'),
      remedy: expect.stringContaining('HF_TOKEN'),
      exitCode: 2,
    });
  });

  it('a revision that does not exist', async () => {
    await expect(resolveModel('org/small@v9', options())).rejects.toMatchObject(
      error('MTL_HUB_REVISION', /v9/),
    );
  });

  it('a token that has expired', async () => {
    const expired = options({ HF_TOKEN: 'hf_expired' });
    await expect(resolveModel('org/small', expired)).rejects.toMatchObject(
      error('MTL_HUB_TOKEN', /HF_TOKEN/),
    );
  });

  it('too many requests, and says when to come back', async () => {
    const limit = { path: '/api/', status: 429, headers: { 'retry-after': '0' } };
    server.faults.push(limit, { ...limit, headers: { ratelimit: '"api";r=0;t=0' } as never });
    await resolveModel('org/small', options());
    expect(messages.slice(0, 2)).toEqual([
      expect.stringMatching(/asks to wait 0 s \(HTTP 429\)$/),
      expect.stringMatching(/asks to wait 0 s \(HTTP 429\)$/),
    ]);
    server.faults.push({ path: '/api/', status: 429, headers: { 'retry-after': '4000' } });
    await expect(resolveModel('org/small', options())).rejects.toMatchObject({
      ...error('MTL_HUB_RATE_LIMIT'),
      remedy: expect.stringContaining('wait 4000 s'),
    });
  });

  it('everything while it is down, and is asked again', async () => {
    server.faults.push({ path: '/api/', status: 503 }, { path: '/objects/', status: 500 });
    expect((await resolveModel('org/small', options())).fetchedBytes).toBeGreaterThan(0);
    for (let at = 0; at < 3; at++) server.faults.push({ path: '/api/', status: 503 });
    await expect(resolveModel('org/small', options())).rejects.toMatchObject(error('MTL_HUB_ANSWER', /503/));
  });

  it('is another server', async () => {
    server.faults.push({ path: '/api/', status: 200 });
    await expect(resolveModel('org/small', options())).rejects.toMatchObject(
      error('MTL_HUB_ANSWER', /does not answer as a Hub/),
    );
  });
});

describe('without a connection', () => {
  const offline = (): ResolveModelOptions => options({ HF_HUB_OFFLINE: '1' });

  it('a model is taken from the cache, and nothing is sent', async () => {
    await expect(resolveModel('org/small', offline())).rejects.toMatchObject(error('MTL_HUB_OFFLINE'));
    expect(server.requests).toEqual([]);
    const { directory, commit } = await resolveModel('org/small', options());
    server.requests.length = 0;
    expect((await resolveModel('org/small', offline())).directory).toBe(directory);
    expect((await resolveModel(`org/small@${commit}`, offline())).directory).toBe(directory);
    await expect(resolveModel('org/small@v1', offline())).rejects.toMatchObject(error('MTL_HUB_OFFLINE'));
    expect(server.requests).toEqual([]);
  });

  it('that was expected, the cache is used with a message', async () => {
    const { directory } = await resolveModel('org/small', options());
    messages = [];
    const lost = options();
    await server.close();
    expect((await resolveModel('org/small', lost)).directory).toBe(directory);
    expect(messages).toEqual([expect.stringMatching(/cannot be reached.*ECONNREFUSED.*in the cache$/)]);
    server = await HubServer.start({});
    rmSync(home, { recursive: true });
    await expect(resolveModel('org/small', lost)).rejects.toMatchObject(error('MTL_HUB_UNREACHABLE'));
  });

  it('a snapshot whose contents were deleted does not count', async () => {
    await resolveModel('org/small', options());
    rmSync(join(folder(), 'blobs', sha256(weights)));
    await expect(resolveModel('org/small', offline())).rejects.toMatchObject(error('MTL_HUB_OFFLINE'));
  });
});

describe('a proxy', () => {
  let proxy: Server;
  let asked: string[];
  beforeEach(async () => {
    asked = [];
    proxy = createServer((request, response) => {
      asked.push(`${request.method} ${new URL(request.url!).host}`);
      const { pathname, search } = new URL(request.url!);
      const { headers, method } = request;
      // only the proxy can resolve the test's host names
      const onward = httpRequest(`${server.endpoint}${pathname}${search}`, { method, headers }, (answer) => {
        response.writeHead(answer.statusCode!, answer.headers);
        answer.pipe(response);
      });
      onward.end();
    });
    await new Promise<void>((listening) => proxy.listen(0, '127.0.0.1', listening));
  });
  afterEach(async () => {
    proxy.closeAllConnections();
    await new Promise((closed) => proxy.close(closed));
  });

  const through = (): Record<string, string> => ({
    HF_ENDPOINT: 'http://hub.invalid',
    HTTP_PROXY: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
  });

  it('of the environment gets the requests', async () => {
    const { directory } = await resolveModel('org/small', { ...options(through()), part: 'tokenizer' });
    expect(readFileSync(join(directory, 'tokenizer.json'), 'utf8')).toBe('{"version": "1.0"}');
    expect(asked).toEqual(Array(4).fill('GET hub.invalid'));
  });

  it('is named where it does not answer', async () => {
    const dead = options({ ...through(), HTTP_PROXY: 'http://127.0.0.1:9' });
    await expect(resolveModel('org/small', dead)).rejects.toMatchObject(
      error('MTL_HUB_UNREACHABLE', /by the proxy 127\.0\.0\.1:9 of HTTP_PROXY/),
    );
  });
});

describe('arguments', () => {
  it.each(['gpt2', 'a/b/c', './a', '/a/b', 'org/', 'org/a@', 'org/a@../b', 'org/a--b', 'org/..'])(
    'refuses %s',
    async (name) => {
      await expect(resolveModel(name, options())).rejects.toMatchObject({ code: 'MTL_HUB_NAME' });
    },
  );

  it('refuses an address that is none', async () => {
    const odd = options({ HF_ENDPOINT: 'huggingface.co' });
    await expect(resolveModel('org/small', odd)).rejects.toMatchObject(error('MTL_HUB_ENDPOINT'));
  });

  it('refuses a cache that cannot be written', async () => {
    writeFileSync(join(home, 'file'), '');
    const odd = options({ HF_HUB_CACHE: join(home, 'file') });
    await expect(resolveModel('org/small', odd)).rejects.toMatchObject(error('MTL_HUB_CACHE'));
  });
});
