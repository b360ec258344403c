import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { HubServer, servedToken } from '../testing/index.js';
import { modelCard } from './model-card.js';
import { privateWordIn, privateWords } from './private-words.js';
import { type PreparedPush, type PreparePushOptions, preparePush } from './push-model.js';

const weights = Buffer.alloc(100_000, 7);
let server: HubServer;
let directory: string;
beforeEach(async () => {
  server = await HubServer.start({});
  directory = mkdtempSync(join(tmpdir(), 'mtl-push-'));
  const write = (name: string, contents: string | Uint8Array) =>
    writeFileSync(join(directory, name), contents);
  write('config.json', '{"model_type": "gpt2"}');
  // a vocabulary may have any word
  write('tokenizer.json', JSON.stringify({ vocab: { [homedir()]: 0 } }));
  write('model.safetensors', weights);
  write('optimizer.pt', 'a pickle');
  write('.env', 'KEY=secret');
  mkdirSync(join(directory, 'logs'));
  write('logs/train.log', 'a log');
});
afterEach(async () => {
  await server.close();
  rmSync(directory, { recursive: true, force: true });
});

const prepare = (changed: Partial<PreparePushOptions> = {}): Promise<PreparedPush> =>
  preparePush({
    directory,
    name: 'me/small',
    environment: { HF_ENDPOINT: server.endpoint, HF_TOKEN: servedToken, HOME: homedir() },
    patience: { firstWaitMs: 1, mostAttempts: 2 },
    ...changed,
  });
const contents = (name: string): Record<string, string> =>
  Object.fromEntries(
    Object.entries(server.repositories.get(name)!.files).map(([file, bytes]) => [
      file,
      Buffer.from(bytes as string).toString(),
    ]),
  );

describe('an upload', () => {
  it('creates a private repository with the files of the model and its model card in one commit', async () => {
    const push = await prepare();
    expect(push).toMatchObject({ existing: undefined, url: `${server.endpoint}/me/small` });
    expect(push.folder).toMatchObject({
      format: 'transformers',
      left: ['.env', 'logs/train.log', 'optimizer.pt'],
    });
    expect(server.created.size).toBe(0);
    const commit = await push.run('# small\n');
    expect(commit).toBe(`${server.endpoint}/me/small/commit/${server.hashCommit('me/small')}`);
    expect([...server.created]).toEqual([['me/small', 'private']]);
    expect(contents('me/small')).toEqual({
      'config.json': '{"model_type": "gpt2"}',
      'tokenizer.json': expect.any(String),
      'model.safetensors': weights.toString(),
      'README.md': '# small\n',
    });
    const commits = server.requests.filter(({ url }) => url.includes('/commit/'));
    expect(commits).toHaveLength(1);
  });

  it('gives the token to the Hub alone', async () => {
    await (await prepare()).run('# small\n');
    const of = (host: string) =>
      server.requests.filter((each) => each.host === host).map((each) => each.authorization);
    expect(new Set(of('hub'))).toEqual(new Set([`Bearer ${servedToken}`]));
    expect(of('storage')).toEqual([undefined]);
  });

  it('sends large files once, also where the commit failed', async () => {
    server.faults.push({ path: '/commit/', status: 500 });
    await expect((await prepare()).run('# small\n')).rejects.toMatchObject({ code: 'MTL_HUB_ANSWER' });
    expect(contents('me/small')).toEqual({});
    const again = await prepare();
    expect(again.existing).toBe('private');
    await again.run('# small\n');
    expect(server.requests.filter(({ host, method }) => host === 'storage' && method === 'PUT')).toHaveLength(
      1,
    );
    expect(Object.keys(contents('me/small'))).toContain('model.safetensors');
  });

  it('is public only where that was asked for', async () => {
    await (await prepare({ isPublic: true })).run('# small\n');
    expect([...server.created]).toEqual([['me/small', 'public']]);
    await expect(prepare()).rejects.toMatchObject({ code: 'MTL_HUB_PUBLIC' });
    expect((await prepare({ isPublic: true })).existing).toBe('public');
  });

  it.each([
    [{ name: 'small' }, 'MTL_HUB_NAME'],
    [{ name: 'me/small@v1' }, 'MTL_HUB_NAME'],
    [{ directory: '/no/such' }, 'MTL_HUB_PUSH_FOLDER'],
    [{ environment: { HF_HUB_OFFLINE: '1' } }, 'MTL_HUB_OFFLINE'],
  ])('%j is refused with %s', async (changed, code) => {
    await expect(prepare(changed)).rejects.toMatchObject({ code });
    expect(server.requests).toEqual([]);
  });

  it.each([
    ['model.gguf', 'in a smaller --dtype'],
    ['model.safetensors', 'files of at most 5 GB'],
  ])('with %s of 51 GB is refused with the remedy', async (file, remedy) => {
    writeFileSync(join(directory, file), '');
    // the file consists of a hole, which takes no space on the disk
    truncateSync(join(directory, file), 51e9);
    await expect(prepare()).rejects.toMatchObject({
      code: 'MTL_HUB_PUSH_FOLDER',
      message: `${join(directory, file)} has 51.0 GB, which Git LFS of the Hub does not take`,
      expected: 'files of at most 50.0 GB',
      remedy: expect.stringContaining(remedy),
    });
    expect(server.requests).toEqual([]);
  });

  it('needs a token that may write', async () => {
    const without = { HF_ENDPOINT: server.endpoint, HF_HOME: directory };
    await expect(prepare({ environment: without })).rejects.toMatchObject({ code: 'MTL_HUB_TOKEN' });
    server.faults.push({ path: '/api/repos/create', status: 403 });
    await expect((await prepare()).run('')).rejects.toMatchObject({
      code: 'MTL_HUB_FORBIDDEN',
      remedy: expect.stringContaining('permission to write'),
    });
  });

  it.each([
    ['gguf', ['model-Q8_0.gguf']],
    ['peft', ['adapter_config.json', 'adapter_model.safetensors']],
  ])('may be a folder of %s', async (format, names) => {
    rmSync(directory, { recursive: true });
    mkdirSync(directory);
    for (const name of names) writeFileSync(join(directory, name), '{}');
    const push = await prepare();
    expect(push.folder).toMatchObject({ format, left: [] });
    await push.run('# it\n');
    expect(Object.keys(contents('me/small')).sort()).toEqual(['README.md', ...names].sort());
  });

  it('of a run is refused with the command that makes a model of it', async () => {
    rmSync(join(directory, 'config.json'));
    writeFileSync(join(directory, 'run.json'), '{}');
    await expect(prepare()).rejects.toMatchObject({
      code: 'MTL_HUB_PUSH_FOLDER',
      remedy: expect.stringContaining('mtl convert --load'),
    });
  });
});

describe('what must not be published', () => {
  it.each([
    [
      'config.json',
      () => JSON.stringify({ _name_or_path: `${homedir()}/models/base` }),
      'the home directory',
    ],
    ['config.json', () => '{"_name_or_path": "/data/models/base"}', 'a local path in _name_or_path'],
    [
      'adapter_config.json',
      () => '{"base_model_name_or_path": "../base"}',
      'a local path in base_model_name_or_path',
    ],
    ['README.md', () => `key: ${servedToken}`, 'the access token of the Hub'],
    ['LICENSE', () => 'hf_abcdefghijklmnopqrstuvwxyz', 'an access token'],
    ['generation_config.json', () => '{"key": "wandb-key-0123"}', 'the value of WANDB_API_KEY'],
  ])('is found in %s', async (file, text, what) => {
    writeFileSync(join(directory, file), text());
    const environment = {
      HF_ENDPOINT: server.endpoint,
      HF_TOKEN: servedToken,
      WANDB_API_KEY: 'wandb-key-0123',
      HOME: homedir(),
    };
    const refused = await prepare({ environment }).catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: 'MTL_HUB_PRIVATE', message: expect.stringContaining(what) });
    expect(JSON.stringify(refused)).not.toContain(servedToken);
    expect(server.requests).toEqual([]);
  });

  it('is the name of the host, unless it is in every text', () => {
    const found = (host: string) => privateWordIn(`trained on ${host}.`, privateWords({}, undefined, host));
    expect(found('node-17.example')).toBe('the name of this host');
    expect(found('gpu')).toBeUndefined();
  });

  it('is not in a model card that a caller wrote', async () => {
    const push = await prepare();
    await expect(push.run(`see ${process.cwd()}/runs`)).rejects.toMatchObject({ code: 'MTL_HUB_PRIVATE' });
    expect(server.created.size).toBe(0);
  });
});

describe('modelCard', () => {
  const facts = {
    name: 'me/small',
    format: 'transformers',
    files: [{ file: 'model.safetensors', bytes: 2_500_000_000 }],
    license: 'apache-2.0',
    baseModel: 'org/base',
    architecture: { hidden_size: 64 },
    training: {
      program: 'mtl 0.1.0',
      iterations: 1000,
      flags: { lr: 0.001, bf16: true },
      data: [{ name: 'wiki|text', bytes: 12_000, sha256: '0123456789abcdef' }],
      losses: Array.from({ length: 100 }, (_, at) => ({ iteration: 10 * (at + 1), loss: 5 - at / 50 })),
      evaluations: [{ iteration: 1000, loss: 3 }],
    },
  } as const;

  it('has the metadata of the Hub, the data, the configuration, the curve and how to load the model', () => {
    const text = modelCard(facts);
    expect(text).toMatch(
      /^---\nlicense: apache-2\.0\nbase_model: org\/base\nlibrary_name: transformers\ntags:\n- mtl\n---\n/,
    );
    for (const part of [
      'AutoModel.from_pretrained("me/small")',
      "mtl generate me/small --prompt 'Hello'",
      '| --lr | 0.001 |',
      '| wiki\\|text | 12.0 kB | 0123456789ab |',
      '| 10 | 5.0000 |',
      '| 1000 | 3.0200 |',
      '| 1000 | 3.0000 | 20.0855 |',
      '2.5 GB in all',
    ])
      expect(text).toContain(part);
    const curve = text.split('## Loss')[1]!.split('## ')[0]!;
    expect(curve.match(/^\| \d/gm)).toHaveLength(12);
  });

  it('says where nothing is known', () => {
    const text = modelCard({ name: 'me/a', format: 'gguf', files: [{ file: 'a.gguf', bytes: 10 }] });
    expect(text).toContain('llama-cli -hf me/a -hff a.gguf');
    expect(text).toContain('None was chosen');
    expect(text).not.toContain('## Training');
  });
});
