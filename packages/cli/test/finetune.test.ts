import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { type RunRecord, removeRun } from '@mtl/run-records';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runMtlIn } from './support/run-mtl-in.js';
import { spawnMtl } from './support/spawn-mtl.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const directory = temporaryDirectory();
afterAll(() => directory.dispose());

function write(name: string, text: string): void {
  const path = join(directory.path, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

beforeAll(() => {
  const rows = (count: number): string =>
    Array.from(
      { length: count },
      (_, index) => `${index}\t0\t0\ta cat\ta ${index % 2 === 0 ? 'dog' : 'bird'}\t${index % 2}\n`,
    ).join('');
  const header = 'id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n';
  write('QQP/train.tsv', header + rows(16));
  write('QQP/dev.tsv', header + rows(5));
  write('vocab.txt', '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\ncat\ndog\nbird\n');
  for (const version of ['1.1', '2.0']) write(`SQuAD/train-v${version}.json`, '{}');
  write('none/readme.txt', '');
});

/** An MLflow that takes everything and keeps what matters. */
async function recordMlflow() {
  const runs: string[] = [];
  const ends: string[] = [];
  const metrics: { key: string; step: number }[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (text) => {
      body += text;
    });
    request.on('end', () => {
      const sent = body === '' ? {} : JSON.parse(body);
      if (request.url?.endsWith('runs/create')) runs.push(sent.run_name);
      if (request.url?.endsWith('runs/log-batch')) metrics.push(...(sent.metrics ?? []));
      if (request.url?.endsWith('runs/update') && sent.status !== 'RUNNING') ends.push(sent.status);
      const answer = { experiment: { experiment_id: '1' }, run: { info: { run_id: `run-${runs.length}` } } };
      response.setHeader('content-type', 'application/json').end(JSON.stringify(answer));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, runs, metrics, ends, close: () => void server.close() };
}

const qqp = ['finetune', '--task', 'qqp', '--data-dir', 'QQP'];
const sizes = ['--num-layers', '2', '--hidden-size', '16', '--num-attention-heads', '2'];
const vocabulary = ['--tokenizer-type', 'BertWordPieceLowerCase', '--vocab-file', 'vocab.txt'];
const short = [
  ...['--seq-length', '16', '--epochs', '2', '--global-batch-size', '8', '--threads', '1'],
  // large steps, so that no prediction hangs on a rounding
  ...['--lr', '0.01', '--log-interval', '1'],
];

describe('mtl finetune', () => {
  it('reports progress, prints a table, and writes predictions; alone and on two processes', async () => {
    const argv = [...qqp, ...sizes, ...vocabulary, ...short, '--seeds', '1,2', '--save'];
    const mlflow = await recordMlflow();
    const services = ['--mlflow-tracking-uri', mlflow.url, '--wandb-project', 'tasks'];
    const { status, stdout, stderr } = await spawnMtl([...argv, 'alone', ...services], {
      cwd: directory.path,
      env: { WANDB_MODE: 'offline' },
    });
    mlflow.close();
    expect({ status, stderr }).toMatchObject({ status: 0 });
    expect(mlflow.runs).toEqual(['alone-seed-1', 'alone-seed-2']);
    // a learning rate for each of four steps, of two seeds
    expect(mlflow.metrics.filter(({ key }) => key === 'learning-rate').map(({ step }) => step)).toEqual([
      ...[1, 2, 3, 4],
      ...[1, 2, 3, 4],
    ]);
    expect(mlflow.ends).toEqual(['FINISHED', 'FINISHED']);
    expect(stderr).toMatch(/MLflow: .*\n/);
    expect(stderr).toMatch(/wandb: .*kept/);
    expect(stderr).toContain('qqp in fp32: 16 samples of 16 tokens, 2 steps an epoch');
    expect(stderr).toContain('step 4/4 (epoch 2/2) | loss');
    expect(stdout).toMatch(/^qqp, from scratch: 2 epochs, batch 8, learning rate 0.01\ndev\n/);
    expect(stdout).toMatch(/seed +epoch +loss +accuracy +f1\n +1 +2 .*\n +2 +2 .*\n +median /);
    const predictions = 'seed-2/predictions/dev.tsv';
    expect(stdout).toContain(`alone/${predictions}`);
    const two = await spawnMtl(
      [
        'run',
        '--nproc-per-node',
        '2',
        'mtl',
        '--',
        ...argv,
        'two',
        '--pipeline-model-parallel-size',
        '2',
        '--json',
      ],
      { cwd: directory.path },
    );
    expect({ status: two.status, stderr: two.stderr }).toMatchObject({ status: 0 });
    const read = (name: string): string => readFileSync(join(directory.path, name), 'utf8');
    expect(read(`two/${predictions}`)).toBe(read(`alone/${predictions}`));
    expect(two.stdout).toContain('"reason":"done"');
    const readStart = (name: string) => {
      const { starts } = JSON.parse(read(`${name}/run.json`)) as RunRecord;
      expect(starts).toHaveLength(1);
      return starts[0]!;
    };
    const start = readStart('alone/seed-2');
    expect(start).toMatchObject({
      task: 'qqp',
      model: 'bert',
      iteration: 0,
      trainIterations: 4,
      device: 'cpu',
      threads: { count: 1, reason: 'as --threads says' },
      flags: { seeds: 2, threads: 1, lr: 0.01, 'train-data': 'QQP/train.tsv' },
      layout: { worldSize: 1, tensor: 1, pipeline: 1, data: 1 },
      datasets: ['QQP/train.tsv', 'QQP/dev.tsv'].map((path) => ({ path, bytes: read(path).length })),
      end: { reason: 'done', iteration: 4 },
    });
    expect(start.flags).toMatchObject({ 'wandb-project': 'tasks', 'mlflow-tracking-uri': mlflow.url });
    expect(start.command.join(' ')).toContain(argv.join(' '));
    expect(readStart('two/seed-2').layout).toEqual({ worldSize: 2, tensor: 1, pipeline: 2, data: 1 });
    expect(readStart('two/seed-2').datasets).toEqual(start.datasets);
    // as a process that was killed leaves the other seed
    const killed = {
      format: 'mtl-run',
      version: 1,
      starts: [{ ...readStart('alone/seed-1'), end: undefined }],
    };
    write('alone/seed-1/run.json', JSON.stringify(killed));
    const runs = await runMtlIn(['runs', 'alone'], { cwd: directory.path });
    expect(runs.stdout).toMatch(/\nseed-1 +failed +4 of 4 .*\nseed-2 +finished +4 of 4 /);
    expect(await removeRun(join(directory.path, 'alone/seed-2'))).toEqual({ left: [] });
  });

  it.each([
    [
      'a service without a folder',
      [...qqp, ...sizes, ...vocabulary, '--wandb-project', 'a'],
      'MTL_FLAG_NEEDS',
      '--save DIR',
    ],
    ['no task', ['finetune', '--data-dir', 'QQP'], 'MTL_FLAG_REQUIRED', '--task'],
    ['a task misspelt', ['finetune', '--task', 'qpq'], 'MTL_FLAG_VALUE', 'write --task qqp'],
    ['no data', ['finetune', '--task', 'qqp'], 'MTL_FLAG_REQUIRED', '--train-data'],
    ['no model', qqp, 'MTL_FLAG_REQUIRED', '--load-hf'],
    [
      'half a model',
      [...qqp, ...vocabulary, '--num-layers', '1'],
      'MTL_FLAG_REQUIRED',
      '--hidden-size and --num-attention-heads',
    ],
    ['seeds that are none', [...qqp, '--seeds', '1,1'], 'MTL_FLAG_VALUE', '1,2,3,4,5'],
    ['two precisions', [...qqp, ...sizes, '--bf16', '--fp16'], 'MTL_FLAG_CONFLICT', '--fp16'],
    [
      'two versions of SQuAD',
      ['finetune', '--task', 'squad', '--data-dir', 'SQuAD', ...sizes, ...vocabulary],
      'MTL_FLAG_REQUIRED',
      '--squad-version 2.0',
    ],
    [
      'no version of SQuAD',
      ['finetune', '--task', 'squad', '--data-dir', 'none', ...sizes, ...vocabulary],
      'MTL_FLAG_REQUIRED',
      'train-v1.1.json',
    ],
    ['a version of QQP', [...qqp, '--squad-version', '2.0'], 'MTL_FLAG_CONFLICT', '--task qqp'],
    [
      'too few processes',
      [...qqp, ...sizes, ...vocabulary, '--tensor-model-parallel-size', '2'],
      'MTL_WORLD_SIZE',
      '--nproc-per-node 2',
    ],
    [
      'too few processes for stages',
      [...qqp, ...sizes, ...vocabulary, '--no-cuda-graphs', '--pipeline-model-parallel-size', '4'],
      'MTL_WORLD_SIZE',
      '--nproc-per-node 4',
    ],
    [
      'recomputation without its layers',
      [...qqp, ...sizes, ...vocabulary, '--recompute-granularity', 'full'],
      'MTL_FLAG_NEEDS',
      '--recompute-method uniform or block',
    ],
    [
      'recomputation of more layers than there are',
      [
        ...[...qqp, ...sizes, ...vocabulary, '--recompute-granularity', 'full'],
        ...['--recompute-method', 'block', '--recompute-num-layers', '3'],
      ],
      'MTL_RECOMPUTE',
      '--recompute-num-layers 2',
    ],
    [
      'a device that there is not',
      [...qqp, ...sizes, ...vocabulary, '--device', 'gpu'],
      'MTL_FLAG_VALUE',
      'cpu, cuda',
    ],
    [
      'what transformers cannot compute',
      [...qqp, ...sizes, ...vocabulary, '--save-hf', 'hf'],
      'MTL_HUGGING_FACE_LAYER_NORM',
      '--layer-norm-placement post',
    ],
  ])('%s: one coded error, exit status 2', async (_, argv, code, says) => {
    const { status, stdout, stderr } = await runMtlIn(argv, { cwd: directory.path });
    expect(stderr).toContain(`error[${code}]`);
    expect(stderr).toContain(says);
    expect(stderr.match(/error\[/g)).toHaveLength(1);
    expect(stderr).not.toMatch(/\n\s+at /);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
  });
});
