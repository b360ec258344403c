import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runInMemoryRanks } from '@mtl/comm/testing';
import { parseFlags } from '@mtl/configuration';
import { HubServer } from '@mtl/hub/testing';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { nameOfBaseModel } from '../src/parts/models/name-of-base-model.js';
import { ggufToCheckpoint } from '../src/saved/conversion/gguf-to-checkpoint.js';
import { huggingFaceToGguf } from '../src/saved/conversion/to-gguf.js';
import { fetchGgufFromHub, refuseOtherHost } from '../src/saved/hub/fetch-from-hub.js';
import { withHubModels } from '../src/saved/hub/with-hub-models.js';
import type { FetchOnRanksArgument, FetchOnRanksResult } from './ranks/fetch-on-ranks.js';

let server: HubServer;
let home: string;
beforeEach(async () => {
  const tokenizer = { 'tokenizer.json': '{}', 'tokenizer_config.json': '{}' };
  const adapters = { 'adapter_config.json': '{}', 'adapter_model.safetensors': 'adapters' };
  server = await HubServer.start({
    'org/small': { files: { 'config.json': '{}', 'model.safetensors': 'weights', ...tokenizer } },
    'org/adapters': { files: adapters },
    'org/gated': { files: { 'config.json': '{}', 'model.safetensors': 'weights' }, access: 'gated' },
  });
  home = mkdtempSync(join(tmpdir(), 'mtl-runs-hub-'));
  vi.stubEnv('HF_ENDPOINT', server.endpoint);
  vi.stubEnv('HF_HOME', home);
  vi.stubEnv('HF_TOKEN', '');
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await server.close();
  rmSync(home, { recursive: true, force: true });
});

const snapshot = (name: string): string =>
  join(home, 'hub', `models--${name.replace('/', '--')}`, 'snapshots', server.hashCommit(name));
const ignore = (): void => {};

describe('flags that name models of the Hub', () => {
  it('name their directories afterwards, from the command line and from a file', async () => {
    const config = join(home, 'run.yaml');
    writeFileSync(config, 'tokenizer-model: org/small\ntokenizer-type: HuggingFaceTokenizer\n');
    const argv = ['--config', config, '--load-hf', 'org/small@main', '--load-lora', 'org/adapters'];
    const asked = parseFlags(argv);
    const found = await withHubModels(asked, { onMessage: ignore });
    expect(found.values).toEqual({
      ...asked.values,
      'load-hf': snapshot('org/small'),
      'tokenizer-model': snapshot('org/small'),
      'load-lora': snapshot('org/adapters'),
    });
    expect(found.sources).toEqual(asked.sources);
    expect(nameOfBaseModel(found.values['load-hf'])).toBe('org/small');
    expect(nameOfBaseModel('models/small')).toBe('models/small');
  });

  it('stay as they are where they name paths or are no names of models', async () => {
    const before = process.cwd();
    process.chdir(home);
    try {
      mkdirSync('org/small', { recursive: true });
      const asked = parseFlags(['--load-hf', 'org/small', '--tokenizer-model', 'gpt2']);
      const found = await withHubModels(asked, { onMessage: ignore });
      expect(found.values).toEqual(asked.values);
    } finally {
      process.chdir(before);
    }
    expect(server.requests).toEqual([]);
  });

  it('get no weights for a plan, but adapters, whose layers count', async () => {
    const asked = parseFlags(['--load-hf', 'org/small', '--load-lora', 'org/adapters']);
    await withHubModels(asked, { needs: 'configuration', onMessage: ignore });
    expect(existsSync(join(snapshot('org/small'), 'config.json'))).toBe(true);
    expect(existsSync(join(snapshot('org/small'), 'model.safetensors'))).toBe(false);
    expect(existsSync(join(snapshot('org/adapters'), 'adapter_model.safetensors'))).toBe(true);
  });
});

describe('a GGUF file of the Hub', () => {
  it('is fetched alone, unless its name is a path that exists', async () => {
    server.repositories.set('org/gguf', { files: { 'small.gguf': 'GGUF', 'other.gguf': 'GGUF' } });
    const path = await fetchGgufFromHub('org/gguf/small.gguf', { onMessage: ignore });
    expect(path).toBe(join(snapshot('org/gguf'), 'small.gguf'));
    expect(existsSync(path)).toBe(true);
    expect(existsSync(join(snapshot('org/gguf'), 'other.gguf'))).toBe(false);
    expect(await fetchGgufFromHub(path, { onMessage: ignore })).toBe(path);
    expect(await fetchGgufFromHub('small.gguf', { onMessage: ignore })).toBe('small.gguf');
  });

  it.each(['--from', '--to'])('and models of the Hub are taken by conversions %s gguf', async (direction) => {
    const files = { 'config.json': '{"model_type": "none"}', 'model.safetensors': '', 'x.gguf': 'none' };
    server.repositories.set('org/broken', { files });
    const directory = join(home, 'run');
    // what was fetched is read, and refused
    const done =
      direction === '--from'
        ? ggufToCheckpoint({ gguf: 'org/broken/x.gguf', directory, onNotice: ignore })
        : huggingFaceToGguf({ path: directory, loadHuggingFace: 'org/broken', onNotice: ignore });
    await expect(done).rejects.toMatchObject({ message: expect.stringContaining(snapshot('org/broken')) });
  });
});

describe('ranks', () => {
  const run = (places: FetchOnRanksArgument['places']): Promise<FetchOnRanksResult[]> =>
    runInMemoryRanks<FetchOnRanksResult>({
      worldSize: 3,
      ...rankThreads(new URL('./ranks/fetch-on-ranks.ts', import.meta.url)),
      argument: { places },
      timeoutMs: 60_000,
    });

  it('get the directory that the first one fetched', async () => {
    const results = await run({ loadHuggingFace: 'org/small', loadLora: undefined });
    expect(results.map(({ places }) => places.loadHuggingFace)).toEqual(Array(3).fill(snapshot('org/small')));
    expect(results.map(({ messages }) => messages.length)).toEqual([1, 0, 0]);
    expect(server.requests.filter(({ url }) => url.startsWith('/api/'))).toHaveLength(1);
    expect(server.requests.filter(({ host }) => host === 'storage')).toHaveLength(1);
  });

  it('on a host without the directory of the first one name the cache that they lack', () => {
    const refuse = (directory: string) => () => refuseOtherHost(directory, 'org/small@main');
    expect(refuse(home)).not.toThrow();
    // a path that the user gave is refused by its readers
    expect(refuse('org/small@main')).not.toThrow();
    expect(refuse('/no/such/cache')).toThrow(
      expect.objectContaining({
        code: 'MTL_HUB_OTHER_HOST',
        remedy: expect.stringContaining('hf download org/small)'),
      }),
    );
  });

  it('end with the error of the first one', async () => {
    await expect(run({ loadHuggingFace: 'org/gated' })).rejects.toThrow(/org\/gated is gated/);
  });
});
