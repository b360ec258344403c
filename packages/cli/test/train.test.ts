import { spawnSync } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { prepareCorpus, prepareSentences } from '@mtl/runs/testing';
import { inWholeRuns } from '@mtl/tooling/in-whole-runs';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { appCommand, mtlCommand } from './support/mtl-command.js';
import { runMtlIn } from './support/run-mtl-in.js';
import { spawnMtl } from './support/spawn-mtl.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const directory = temporaryDirectory();
afterAll(() => directory.dispose());

/** A training run of a second. */
const tiny = [
  ...['--preset', 'none', '--num-layers', '2', '--hidden-size', '32', '--num-attention-heads', '2'],
  ...['--seq-length', '32', '--max-position-embeddings', '32', '--micro-batch-size', '2'],
  ...['--global-batch-size', '8', '--lr', '5e-3', '--train-iters', '4', '--threads', '1'],
  ...['--attention-dropout', '0', '--hidden-dropout', '0', '--no-eval-samples'],
  ...['--eval-iters', '1', '--log-interval', '1', '--split', '90,10,0'],
];
let data: { readonly gpt: readonly string[]; readonly bert: readonly string[] };

beforeAll(async () => {
  data = { gpt: await prepareCorpus(directory.path), bert: await prepareSentences(directory.path) };
});

/** Returns the losses in the folder of a run, step by step. */
function readLosses(name: string): number[] {
  const text = readFileSync(join(directory.path, name, 'metrics.jsonl'), 'utf8');
  const records = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { readonly type?: string; readonly lm_loss: number });
  return records.flatMap(({ type, lm_loss }) => (type === undefined ? [lm_loss] : []));
}

const train = async (model: 'gpt' | 'bert', save: string, { numProcesses }: { numProcesses: number }) => {
  const flags = [...tiny, ...data[model], '--save', save];
  const words =
    numProcesses === 1
      ? ['train', model, ...flags]
      : ['run', '--nproc-per-node', String(numProcesses), model, '--', ...flags];
  const mtl = numProcesses === 1 ? runMtlIn : spawnMtl;
  const { status, stdout, stderr } = await mtl(words, { cwd: directory.path });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  return stdout;
};

describe.each([['gpt', /A sample:\n/] as const, ...inWholeRuns(['bert', /^Masks filled .*:\n/m] as const)])(
  'mtl train %s',
  (model, shown) => {
    it('trains from flags, on two processes by mtl run, and as the app does, with the same losses', async () => {
      const alone = await train(model, `${model}-alone`, { numProcesses: 1 });
      expect(alone).toMatch(/iteration +4\/ +4 .* lm loss: \d/);
      expect(alone).toMatch(shown);
      const losses = readLosses(`${model}-alone`);
      expect(losses.length).toBe(4);
      expect(losses[3]).toBeLessThan(losses[0]!);
      await train(model, `${model}-two`, { numProcesses: 2 });
      readLosses(`${model}-two`).forEach((loss, step) => {
        // two ranks add float32 in another order: the bound of parity between layouts
        expect(Math.abs(loss / losses[step]! - 1), `step ${step + 1}`).toBeLessThan(2e-6);
      });
      // which has the steps of opening a run one by one
      const { status } = await spawnMtl([...tiny, ...data[model], '--save', `${model}-app`], {
        cwd: directory.path,
        program: appCommand(`${model}-train`),
      });
      expect(status).toBe(0);
      expect(readLosses(`${model}-app`)).toEqual(losses);
      const record = JSON.parse(readFileSync(join(directory.path, `${model}-two`, 'run.json'), 'utf8'));
      expect(record.starts[0].layout).toMatchObject({ worldSize: 2, data: 2 });
    });
  },
);

it('ends with one error when its output cannot be written, also before a training starts', () => {
  const full = openSync('/dev/full', 'w');
  onTestFinished(() => closeSync(full));
  const [command, ...words] = mtlCommand;
  const { status, stderr } = spawnSync(command!, [...words, 'train', 'gpt', ...tiny, '--dry-run'], {
    encoding: 'utf8',
    stdio: ['ignore', full, 'pipe'],
  });
  expect(stderr).toMatch(/^error\[MTL_OUTPUT\]: standard output cannot be written: ENOSPC/);
  expect(status).toBe(1);
});
