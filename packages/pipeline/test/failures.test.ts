import { isRunning, type RankProcess, startLocalRanks } from '@mtl/comm/testing';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { afterEach, describe, expect, it } from 'vitest';
import type { Trouble } from './ranks/trouble.js';

const worldSize = 3;
const culprit = 1;
/**
 * The time-out of operations, in milliseconds, in tests that wait until it is over: longer than a step takes
 * on a busy machine, and short enough for a test.
 */
const timeoutMs = 2000;

let ranks: RankProcess[] = [];
let remove = (): void => {};

function start(
  kind: Trouble['kind'],
  limits: { readonly timeoutMs?: number; readonly abortGraceMs?: number } = {},
) {
  ({ ranks, remove } = startLocalRanks({
    ...rankThreads(new URL('./ranks/trouble.ts', import.meta.url)),
    worldSize,
    argument: { kind },
    ...limits,
  }));
  return ranks;
}

/** Waits until all ranks have ended, and returns the failure of each. */
async function collectFailures(failing: readonly RankProcess[]) {
  await Promise.all(failing.map((rank) => rank.ended));
  return failing.map(({ lines, stderr }) => {
    const { error } = lines.at(-1) ?? {};
    if (error === undefined) throw new Error(`no error: ${JSON.stringify(lines)} ${stderr()}`);
    return error;
  });
}

/** Checks that a failed step leaves no tensors behind after `abandon`. */
function expectNothingLeft(failed: readonly RankProcess[]): void {
  expect(failed.map(({ lines }) => lines.find((line) => 'left' in line))).toEqual(
    failed.map(() => ({ left: 0 })),
  );
}

afterEach(async () => {
  for (const rank of ranks) if (isRunning(rank)) rank.child.kill('SIGKILL');
  await Promise.all(ranks.map((rank) => rank.ended));
  remove();
});

describe('a stage', () => {
  it('that is killed is named by all others', async () => {
    const processes = start('none');
    await Promise.all(processes.map((rank) => rank.said('ready')));
    processes[culprit]!.child.kill('SIGKILL');
    for (const error of await collectFailures(processes.toSpliced(culprit, 1))) {
      expect(error).toMatchObject({ code: 'MTL_RANK_DIED', details: { rank: culprit } });
    }
    expectNothingLeft(processes.toSpliced(culprit, 1));
    expect(processes.filter(isRunning)).toEqual([]);
  });

  it('that hangs is an error of all others at the time-out, and its process is ended', {
    tags: ['whole'],
  }, async () => {
    const processes = start('hang', { timeoutMs, abortGraceMs: 3000 });
    for (const error of await collectFailures(processes.toSpliced(culprit, 1))) {
      expect(error).toMatchObject({ code: 'MTL_TIMEOUT', details: { group: 'world' } });
    }
    expect(await processes[culprit]!.ended).toBe(1);
    expect(processes[culprit]!.stderr()).toContain(`error[MTL_WATCHDOG]: rank ${culprit}`);
    expectNothingLeft(processes.toSpliced(culprit, 1));
    expect(processes.filter(isRunning)).toEqual([]);
  });

  it('that throws is reported by all others in its own words', async () => {
    const processes = start('throw');
    const [first, own, last] = await collectFailures(processes);
    expect(own!.message).toBe('a bug in the model');
    for (const error of [first, last]) {
      expect(error).toMatchObject({ code: 'MTL_ABORTED', details: { rank: culprit } });
      expect(error!.message).toContain('rank 1 failed: Error: a bug in the model');
    }
    expectNothingLeft(processes.toSpliced(culprit, 1));
  });

  it('that returns another shape than it said is named with both', async () => {
    const processes = start('result');
    const [first, own, last] = await collectFailures(processes);
    expect(own).toMatchObject({ code: 'MTL_STAGE' });
    expect(own!.message).toBe('chunk 1, micro-batch 2: its forward result is float64 [999, 1]');
    for (const error of [first, last]) {
      expect(error).toMatchObject({ code: 'MTL_STAGE', details: { rank: culprit } });
      expect(error!.message).toContain(own!.message);
    }
  });
});

describe('ranks that do not fit each other', () => {
  it.each([
    ['shape', 'in the shape of boundary tensors: rank 0 has [1000, 1], rank 1 has [1000, 2]'],
    ['schedule', 'in the schedule: rank 0, rank 1'],
    ['microBatches', 'in the number of micro-batches: rank 0 has 6, rank 1 has 7'],
    ['dtype', 'in the dtype of boundary tensors: rank 0 has float64, rank 1 has float32'],
  ] as const)('(%s) all say so before the first step', async (kind, words) => {
    for (const error of await collectFailures(start(kind))) {
      expect(error).toMatchObject({ code: 'MTL_PIPELINE_MISMATCH', details: { ranks: [0, culprit] } });
      expect(error.message).toContain(words);
    }
  });

  it('(the same chunk) all say so when the pipeline is made', async () => {
    for (const error of await collectFailures(start('sameChunk'))) {
      expect(error).toMatchObject({ code: 'MTL_PIPELINE_STAGES' });
      expect(error.message).toBe('a pipeline with chunk 0 of 3 on 2 ranks');
    }
  });
});
