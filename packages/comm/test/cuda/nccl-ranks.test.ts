import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ncclProblem } from '@mtl/comm/internal';
import { findGpu } from '@mtl/kernels/internal';
import { freePort } from '@mtl/tooling/free-port';
import { reportEngine } from '@mtl/tooling/report-engine';
import { afterAll, describe, expect, it } from 'vitest';
import { receivedWhileRecording } from '../support/received-while-recording.js';
import { type FinishedRank, startJoiningRanks } from '../support/start-joining-ranks.js';

const { title, problem, isEmulated } = findGpu();
const addon =
  process.env.MTL_COMM_ADDON ?? fileURLToPath(new URL('../../build/Release/mtl_comm.node', import.meta.url));
/** Fake libraries in place of NVIDIA's; they are built next to the addon if nccl.h was found. */
const fakes = ['nccl-process-fakes', 'nccl-fakes'].map((folder) => join(dirname(addon), folder));
const hasFakes = existsSync(join(fakes[0]!, 'libnccl.so.2'));
// a GPU needs the real libraries, an emulated device needs the fakes
const lacking = isEmulated
  ? hasFakes
    ? undefined
    : 'no nccl.h when it was built'
  : ncclProblem()?.split('\n')[0];
const why = problem ?? lacking;
const libraries = isEmulated ? { MTL_CUDA_LIBS: [...fakes, process.env.MTL_CUDA_LIBS ?? ''].join(':') } : {};
const directory = mkdtempSync(join(tmpdir(), 'mtl-nccl-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** Runs two ranks: each on its own emulated device, or both on one. */
async function run(
  more: Readonly<Record<string, string>>,
  { numDevices }: { readonly numDevices: 1 | 2 },
): Promise<FinishedRank[]> {
  const common = {
    WORLD_SIZE: '2',
    MTL_STORE_PORT: String(await freePort()),
    MTL_JOB_SECRET: 'the secret of a test',
    ...libraries,
    MTL_NCCL_FAKE_DIRECTORY: directory,
    MTL_EMULATED_DEVICES: String(numDevices),
    ...more,
  };
  const ranks = [0, 1].map((rank) => ({
    ...common,
    RANK: String(rank),
    DEVICE_INDEX: String(rank % numDevices),
  }));
  return await startJoiningRanks('join-on-gpu.ts', ranks).finished;
}

// a GPU's context and NCCL's first communicator take seconds, which must not count towards the time-outs of
// the test
const timeoutSeconds = isEmulated ? 3 : 30;

const shared = { MTL_NCCL_SHARE_GPU: '1', BACKEND: 'nccl' };

describe.skipIf(why !== undefined)(`ranks over NCCL (${why ?? (isEmulated ? 'fakes' : title)})`, () => {
  it.skipIf(!isEmulated)('choose it where each has a GPU of its own', async () => {
    for (const { stdout, stderr, status } of await run({}, { numDevices: 2 })) {
      expect(stderr).toBe('');
      expect(status).toBe(0);
      const { times, ...rest } = JSON.parse(stdout);
      expect(rest).toMatchObject({ engine: 'nccl', sums: [3, 30] });
      // the time between the marks around a wait; 0 if there was no wait
      expect(times.waitedMs).toBeGreaterThan(0);
      expect(times.computeMs).toBeGreaterThan(0);
      reportEngine('nccl');
    }
  });

  it('share one GPU when they were told so, each claiming a host of its own', async () => {
    for (const [rank, { stdout, stderr, status }] of (await run(shared, { numDevices: 1 })).entries()) {
      expect(stderr).toBe('');
      expect(status).toBe(0);
      const { engine, sums, hostId } = JSON.parse(stdout);
      expect([engine, sums, hostId]).toEqual(['nccl', [3, 30], `mtl-rank-${rank}`]);
      reportEngine('nccl');
    }
  });

  it.skipIf(isEmulated)('measure how long their GPU waits for a rank that is late', async () => {
    const ranks = await run({ ...shared, LATE_MS: '300' }, { numDevices: 1 });
    const [first, second] = ranks.map(({ stdout }) => JSON.parse(stdout).times);
    expect(first.computeMs).toBeGreaterThan(250);
    expect(second.waitedMs).toBeGreaterThan(250);
    expect(second.computeMs).toBeLessThan(second.waitedMs);
  });

  it('receive while a graph is recorded, and after it', async () => {
    const RECORDING = mkdtempSync(join(directory, 'recording-'));
    const [first] = await run({ ...shared, RECORDING }, { numDevices: 1 });
    expect(first!.stderr).toBe('');
    expect(JSON.parse(first!.stdout)).toMatchObject({ engine: 'nccl', recorded: receivedWhileRecording });
  });

  it('are refused on one GPU otherwise, with what to do', async () => {
    const ranks = await run({ BACKEND: 'nccl' }, { numDevices: 1 });
    for (const { stderr, status } of ranks) {
      expect(stderr).toContain('ranks 0 and 1 share one GPU, which NCCL refuses');
      expect(status).not.toBe(0);
    }
    // the first rank that notices the problem tells the others
    expect(ranks.map(({ stderr }) => stderr).join('')).toContain('MTL_NCCL_SHARE_GPU=1');
  });

  it.each([
    ['fails', 'abort 1', {}, /rank 1 failed: Error: the loss is not a number/],
    ['ends', 'exit 1', {}, /error\[MTL_RANK_DIED\].*rank 1/s],
    // this test is about the time limit, and waits for it only once
    [
      'never comes',
      'silent 1',
      { TIMEOUT_MS: String(1000 * timeoutSeconds) },
      new RegExp(`error\\[MTL_TIMEOUT\\].*rank 1 did not come within ${timeoutSeconds} s`, 's'),
    ],
  ])('are all aborted when one %s', async (_, BEHAVIOUR, more, message) => {
    const [first, second] = await run({ ...shared, ...more, BEHAVIOUR }, { numDevices: 1 });
    expect(first!.stderr).toMatch(message);
    expect([first!.status, second!.status]).toEqual([1, BEHAVIOUR.startsWith('exit') ? 7 : 1]);
  });
});
