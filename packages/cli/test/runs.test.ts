import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { OwnedDirectory } from '@mtl/checkpoint';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runMtlHere } from './support/run-mtl-here.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const directory = temporaryDirectory();
const runs = join(directory.path, 'runs');
afterAll(() => directory.dispose());

/** Writes a run folder: its record, with the flags and end given, and a step for each loss. */
function run(
  name: string,
  lr: number,
  { reason, losses }: { reason?: string; losses: readonly number[] },
): void {
  const start = {
    time: '2026-11-22T10:11:12.000Z',
    host: 'here',
    pid: 1,
    command: ['node', 'main.js'],
    workingDirectory: '/',
    model: 'gpt',
    preset: 'default',
    flags: { lr },
    iteration: 0,
    trainIterations: 3,
    commit: null,
    versions: { mtl: '0.1.0', node: '20.19.0', onednn: '3.1' },
    instructionSet: 'avx2',
    device: 'cpu',
    threads: { count: 1, reason: 'one core' },
    datasets: [],
    layout: { worldSize: 1, tensor: 1, pipeline: 1, data: 1 },
    ...(reason === undefined
      ? {}
      : { end: { time: '2026-11-22T10:12:12.000Z', reason, iteration: losses.length } }),
  };
  const folder = join(runs, name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'run.json'), JSON.stringify({ format: 'mtl-run', version: 1, starts: [start] }));
  const lines = losses.map((loss, index) => JSON.stringify({ iteration: index + 1, lm_loss: loss }));
  const validation = JSON.stringify({ type: 'validation', iteration: losses.length, lm_loss: 9 });
  writeFileSync(join(folder, 'metrics.jsonl'), `${[...lines, validation].join('\n')}\n`);
}

beforeAll(() => {
  run('fast', 0.01, { reason: 'done', losses: [4, 3, 2] });
  run('slow', 0.001, { losses: [4, 3.5] });
});

const mtlRuns = (...words: readonly string[]) => runMtlHere('runs', ...words);

it('lists runs with their steps, losses, size and state', async () => {
  const { stdout, status } = await mtlRuns(runs);
  expect(status).toBe(0);
  const lines = stdout.split('\n');
  expect(lines[0]).toMatch(/^run +state +steps +loss +validation +size +started \(UTC\)$/);
  expect(lines[1]).toMatch(/^fast +finished +3 of 3 +2\.0000 +9\.0000 +[\d.]+ KiB +2026-11-22 10:11$/);
  expect(lines[2]).toMatch(/^slow +failed +2 of 3 +3\.5000 +9\.0000 /);
});

it('lists one run by its name in runs, from the directory above', async () => {
  const here = process.cwd();
  process.chdir(directory.path);
  try {
    const { stdout, status } = await mtlRuns('fast');
    expect(status).toBe(0);
    expect(stdout.split('\n').slice(1)).toEqual([expect.stringMatching(/^fast +finished/), '']);
    const { stderr, status: wrong } = await mtlRuns('nothing');
    expect([wrong, stderr]).toEqual([2, expect.stringContaining('nothing: no such directory or run')]);
  } finally {
    process.chdir(here);
  }
});

it('lists them as JSON', async () => {
  const { stdout } = await mtlRuns(runs, '--json');
  expect(JSON.parse(stdout)).toMatchObject([
    { name: 'fast', state: 'finished', iteration: 3, trainIterations: 3, loss: 2, validationLoss: 9 },
    { name: 'slow', state: 'failed', iteration: 2, starts: [{ flags: { lr: 0.001 } }] },
  ]);
});

it('compares two runs', async () => {
  const names = [join(runs, 'fast'), join(runs, 'slow')];
  const { stdout } = await mtlRuns('diff', ...names);
  expect(stdout).toMatch(/^ {2}--lr +0\.01 +0\.001$/m);
  expect(stdout).toMatch(/^conditions: no difference$/m);
  expect(stdout).toContain('2 steps in common, equal before 2');
  expect(stdout).toContain('at step 2: 3.000000 and 3.500000');
  const json = JSON.parse((await mtlRuns('diff', ...names, '--json')).stdout);
  expect(json).toMatchObject({
    flags: [{ name: 'lr', values: [0.01, 0.001] }],
    losses: { firstDifference: 2 },
  });
});

/** Writes the runs `one` and `other`, which take other experts in step 2. */
function runWithOtherExperts({ lr, difference }: { readonly lr: number; readonly difference: number }): void {
  const loads = { one: [6, 2], other: [5, 3] };
  for (const [name, rows] of Object.entries(loads)) {
    run(name, name === 'other' ? lr : 1, { reason: 'done', losses: [] });
    const layers = ['decoder.layers.0.mlp', 'decoder.layers.1.mlp'];
    const isMoved = (iteration: number) => iteration > 1 && name === 'other';
    const lines = [1, 2].flatMap((iteration) => [
      { iteration, lm_loss: (isMoved(iteration) ? 1.002 : 1) + (name === 'other' ? difference : 0) },
      { type: 'experts', iteration, steps: 1, layers, loads: [[4, 4], iteration > 1 ? rows : [4, 4]] },
    ]);
    const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('');
    writeFileSync(join(runs, name, 'metrics.jsonl'), text);
  }
}

it('tells the step, the layer and the tokens where two runs took other experts', async () => {
  runWithOtherExperts({ lr: 1, difference: 1e-7 });
  const names = [join(runs, 'one'), join(runs, 'other')] as const;
  const { stdout } = await mtlRuns('diff', ...names);
  expect(stdout).toMatch(
    /experts\n {2}at step 2 at least 1 token of decoder\.layers\.1\.mlp took other experts\n {2}losses before differ by up to 1\.0e-7: rounding decides .*\n {2}losses from there on differ by up to 2\.0e-3\n$/,
  );
  await mtlRuns('remove', ...names, '--yes');
});

it('does not blame rounding for other experts where the losses before are equal, or the runs learn differently', async () => {
  const names = [join(runs, 'one'), join(runs, 'other')] as const;
  const diff = async () => (await mtlRuns('diff', ...names)).stdout;
  runWithOtherExperts({ lr: 2, difference: 0 });
  expect(await diff()).toMatch(
    /^ {2}--lr +1 +2\n[\s\S]* {2}losses before are equal\n {2}losses from there on/m,
  );
  runWithOtherExperts({ lr: 2, difference: 1e-7 });
  expect(await diff()).toContain('  losses before differ by up to 1.0e-7\n');
  runWithOtherExperts({ lr: 1, difference: 0 });
  expect(await diff()).toContain('  losses before are equal\n');
  runWithOtherExperts({ lr: 1, difference: 1e-7 });
  rmSync(join(runs, 'other', 'run.json'));
  const unknown = await diff();
  expect(unknown).toContain('has no run.json, only its losses and loads of experts are compared\n');
  expect(unknown).toContain('  losses before differ by up to 1.0e-7\n');
  for (const name of names) rmSync(name, { recursive: true });
});

it('removes a run when it is told to, and none that runs', async () => {
  run('old', 1, { reason: 'done', losses: [1] });
  run('live', 1, { losses: [1] });
  const [old, live] = [join(runs, 'old'), join(runs, 'live')];
  const owned = await OwnedDirectory.own({ directory: live });
  const both = await mtlRuns('remove', old, live, '--yes');
  expect(both).toMatchObject({ status: 2, stderr: expect.stringContaining('MTL_RUN_RUNNING') });
  const asked = await mtlRuns('remove', old);
  expect(asked).toMatchObject({ status: 2, stderr: expect.stringContaining('--yes') });
  expect(asked.stderr).toMatch(/^old: .* KiB in .*: metrics\.jsonl run\.json$/m);
  expect(existsSync(old)).toBe(true);
  expect(await mtlRuns('remove', old, '--yes')).toMatchObject({ status: 0, stdout: `removed ${old}\n` });
  expect([existsSync(old), existsSync(live)]).toEqual([false, true]);
  await owned.release();
});

it.each([
  ['a directory that does not exist', ['nowhere'], 'MTL_RUN_NONE'],
  ['a run that does not exist', ['diff', 'nowhere', 'nowhere'], 'MTL_RUN_NONE'],
  ['one run to compare', ['diff', 'nowhere'], 'MTL_'],
  ['no run to remove', ['remove'], 'MTL_'],
  ['a flag misspelt', [runs, '--jsno'], 'MTL_FLAG_UNKNOWN'],
])('refuses %s', async (_, words, code) => {
  expect(await mtlRuns(...words)).toMatchObject({ status: 2, stderr: expect.stringContaining(code) });
});

it('sends kept metrics of runs that reported to a service, and refuses others', async () => {
  const { status, stderr } = await mtlRuns('send', join(runs, 'fast'));
  expect(status).toBe(2);
  expect(stderr).toMatch(
    /error\[MTL_TRACKING_NONE\]: .*fast has no tracking\.json; expected .*--wandb-project/,
  );
  const mlflow = { trackingUri: 'http://127.0.0.1:9', experiment: 'a', name: 'fast', rows: 3, isEnded: true };
  const state = { format: 'mtl-tracking', version: 1, mlflow };
  writeFileSync(join(runs, 'fast', 'tracking.json'), JSON.stringify(state));
  const sent = await mtlRuns('send', join(runs, 'fast'), '--json');
  expect(sent.status).toBe(0);
  expect(JSON.parse(sent.stdout)).toMatchObject({ services: [{ title: 'MLflow', sent: 3, kept: 0 }] });
  const listed = await mtlRuns('remove', join(runs, 'fast'));
  expect(listed.stderr).toContain('tracking.json');
});
