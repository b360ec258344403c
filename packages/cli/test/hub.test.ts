import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { homedir, hostname } from 'node:os';
import { join } from 'node:path';
import { HubServer, type ServedRequest, servedToken } from '@mtl/hub/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { runMtlIn } from './support/run-mtl-in.js';
import { type FinishedMtl, spawnMtl } from './support/spawn-mtl.js';
import { temporaryDirectory } from './support/temporary-directory.js';
import { trainTinyGpt } from './support/train-tiny-gpt.js';

const directory = temporaryDirectory();
const cwd = directory.path;
const home = join(cwd, 'huggingface');
let server: HubServer;

const env = (): Record<string, string> => ({ HF_ENDPOINT: server.endpoint, HF_HOME: home, HF_TOKEN: '' });
const mtl = (...argv: string[]): Promise<FinishedMtl> => runMtlIn(argv, { cwd, env: env() });
const generate = (...model: string[]): Promise<FinishedMtl> =>
  mtl('generate', ...model, '--prompt', 'the cat', '--max-new-tokens', '8', '--threads', '1');
const sent = (host: ServedRequest['host']): string[] =>
  server.requests.filter((request) => request.host === host).map(({ url }) => url);

beforeAll(async () => {
  const { prefix } = await trainTinyGpt(cwd);
  expect(prefix).toBe(join(cwd, 'cats_text_document'));
  server = await HubServer.start({});
  const { status, stderr } = await mtl('convert', '--load', 'run', '--save-hf', 'tiny-hf');
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  const names = readdirSync(join(cwd, 'tiny-hf')).filter((name) =>
    statSync(join(cwd, 'tiny-hf', name)).isFile(),
  );
  const files = Object.fromEntries(names.map((name) => [name, readFileSync(join(cwd, 'tiny-hf', name))]));
  server.repositories.set('org/tiny', {
    files: { ...files, 'pytorch_model.bin': 'a pickle' },
    revisions: ['v1'],
  });
  server.repositories.set('org/gated', { files, access: 'gated' });
});
afterAll(async () => {
  await server.close();
  directory.dispose();
});
beforeEach(() => {
  server.requests.length = 0;
  rmSync(home, { recursive: true, force: true });
});

describe('a model of the Hub', () => {
  it('generates the text of its directory, and is fetched once', async () => {
    const local = await generate('tiny-hf');
    const first = await generate('org/tiny');
    expect(first.stdout).toBe(local.stdout);
    expect(first.stderr).toMatch(
      /^fetching org\/tiny at [0-9a-f]{8} from 127\.0\.0\.1:\d+: \d+ files, \d+ kB, into .*\n$/,
    );
    expect(sent('storage')).toHaveLength(1);
    const second = await generate('--load-hf', 'org/tiny@v1');
    expect(second).toEqual({ ...first, stderr: '' });
    expect(sent('storage')).toHaveLength(1);
    expect(JSON.stringify(readdirSync(home, { recursive: true }))).not.toContain('.bin');
  });

  it('is not asked for where a path of its name exists', async () => {
    mkdirSync(join(cwd, 'org'));
    cpSync(join(cwd, 'tiny-hf'), join(cwd, 'org', 'tiny'), { recursive: true });
    try {
      expect(await generate('org/tiny')).toEqual(await generate('tiny-hf'));
      expect((await generate('tiny')).stderr).toContain('error[MTL_MODEL_NONE]');
    } finally {
      rmSync(join(cwd, 'org'), { recursive: true });
    }
    expect(server.requests).toEqual([]);
  });

  it('is refused with one error and a remedy', async () => {
    const { status, stdout, stderr } = await generate('org/gated');
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toMatch(
      /^error\[MTL_HUB_GATED\]: org\/gated is gated.*\n {2}remedy: accept its terms at .*\n$/,
    );
    const offline = await runMtlIn(['generate', 'org/tiny'], { cwd, env: { ...env(), HF_HUB_OFFLINE: '1' } });
    expect(offline.stderr).toMatch(/^error\[MTL_HUB_OFFLINE\].*\n {2}remedy: .*\n$/);
    expect(offline.status).toBe(2);
  });

  it('may be converted, and give its tokenizer alone', async () => {
    const converted = await mtl('convert', '--load-hf', 'org/tiny', '--save', 'converted');
    expect(converted.stdout).toContain('org/tiny -> converted');
    const own = await mtl(
      ...[
        'generate',
        '--load',
        'run',
        '--tokenizer-type',
        'HuggingFaceTokenizer',
        '--tokenizer-model',
        'org/tiny',
      ],
      ...['--prompt', 'the cat', '--max-new-tokens', '8', '--threads', '1'],
    );
    expect(own.stdout).toBe((await generate('run')).stdout);
  });
});

describe('a training run from a model of the Hub', () => {
  const train = [
    '--load-hf',
    'org/tiny',
    '--data-path',
    'cats_text_document',
    '--split',
    '90,10,0',
    '--lr',
    '0.001',
  ];
  const flags = [
    ...train,
    '--seq-length',
    '32',
    '--micro-batch-size',
    '2',
    '--global-batch-size',
    '4',
    '--threads',
    '1',
  ];

  it('fetches no weights for a dry run or a plan', async () => {
    const dry = await mtl(
      'plan',
      '--num-processes',
      '1',
      '--profile',
      'h100-80gb',
      '--',
      ...flags,
      '--train-iters',
      '2',
    );
    expect(dry).toMatchObject({ status: 0, stderr: expect.stringMatching(/^fetching org\/tiny/) });
    const run = await spawnMtl(['train', 'gpt', ...flags, '--train-iters', '2', '--dry-run'], {
      cwd,
      env: env(),
    });
    expect(run).toMatchObject({ status: 0, stderr: '', stdout: expect.stringContaining('dry run: ') });
    expect(sent('storage')).toEqual([]);
    expect(sent('hub').filter((url) => /safetensors/.test(url))).toEqual([]);
  });

  it('fetches it on one of two ranks, and both train', async () => {
    const argv = [
      'run',
      '--nproc-per-node',
      '2',
      'mtl',
      '--',
      'train',
      'gpt',
      ...flags,
      '--train-iters',
      '2',
    ];
    const { status, stdout, stderr } = await spawnMtl([...argv, '--save', 'two'], { cwd, env: env() });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout.match(/fetching org\/tiny/g)).toHaveLength(1);
    expect(stdout).toContain(`loaded the weights of ${home}`);
    expect(sent('storage')).toHaveLength(1);
    expect(sent('hub').filter((url) => url.startsWith('/api/'))).toHaveLength(1);
  });

  it('ends all ranks with the one error of the first', async () => {
    const gated = flags.map((word) => (word === 'org/tiny' ? 'org/gated' : word));
    const argv = [
      'run',
      '--nproc-per-node',
      '2',
      'mtl',
      '--',
      'train',
      'gpt',
      ...gated,
      '--train-iters',
      '2',
    ];
    const { status, stderr } = await spawnMtl([...argv, '--save', 'none'], {
      cwd,
      env: { ...env(), HF_TOKEN: '' },
    });
    expect(status).toBe(2);
    expect(stderr.match(/error\[MTL_HUB_GATED\]/g)).toHaveLength(1);
    expect(stderr).not.toContain(servedToken);
    expect(existsSync(join(cwd, 'none'))).toBe(false);
  });
});

describe('mtl push', () => {
  const push = (...words: string[]): Promise<FinishedMtl> =>
    runMtlIn(['push', 'tiny-hf', 'me/tiny', '--run', 'run', ...words], {
      cwd,
      env: { ...env(), HF_TOKEN: servedToken, WANDB_API_KEY: 'wandb-key-0123' },
    });

  it('shows what it would upload, and uploads nothing without a confirmation', async () => {
    const { status, stdout, stderr } = await push();
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toContain('# tiny');
    expect(stderr).toMatch(/error\[MTL_HUB_NOT_CONFIRMED\]: nothing was uploaded.*\n {2}remedy: .*--yes\n$/);
    expect(server.repositories.has('me/tiny')).toBe(false);
    expect(server.requests.map(({ method }) => method)).toEqual(['GET']);
  });

  it('uploads the model with a model card of its run, which tells nothing of this machine', async () => {
    const { status, stdout } = await push('--yes', '--license', 'mit');
    expect({ status, stdout }).toEqual({
      status: 0,
      stdout: `${server.endpoint}/me/tiny/commit/${server.hashCommit('me/tiny')}\n`,
    });
    expect(server.created.get('me/tiny')).toBe('private');
    const text = Buffer.from(server.repositories.get('me/tiny')!.files['README.md'] as Buffer).toString();
    for (const part of [
      'license: mit',
      '| --lr | 0.01 |',
      'cats_text_document',
      '| 40 | ',
      'validation loss',
      'n_layer',
    ])
      expect(text).toContain(part);
    for (const word of [homedir(), cwd, hostname(), servedToken, 'wandb-key-0123', server.endpoint])
      expect(text).not.toContain(word);
    // with its paths the run would tell where it was
    expect(readFileSync(join(cwd, 'run/run.json'), 'utf8')).toContain(cwd);
    const local = await generate('tiny-hf');
    const fetched = await runMtlIn(
      ['generate', 'me/tiny', '--prompt', 'the cat', '--max-new-tokens', '8', '--threads', '1'],
      { cwd, env: { ...env(), HF_TOKEN: servedToken } },
    );
    expect(fetched.stdout).toBe(local.stdout);
  });
});
