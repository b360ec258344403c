import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { glooProblem } from '@mtl/comm';
import { runInMemoryRanks } from '@mtl/comm/testing';
import { findGpu } from '@mtl/kernels/internal';
import { freePort } from '@mtl/tooling/free-port';
import { reportEngine } from '@mtl/tooling/report-engine';
import { typescriptThreads } from '@mtl/tooling/typescript-threads';
import { describe, expect, it } from 'vitest';
import type { CollectiveCases } from '../ranks/collectives.js';
import type { ReceivedWhileRecording } from '../ranks/receive-while-recording.js';
import { receivedWhileRecording } from '../support/received-while-recording.js';
import { type FinishedRank, startJoiningRanks } from '../support/start-joining-ranks.js';

const { title, problem, isEmulated } = findGpu();
const module = new URL('../ranks/collectives.ts', import.meta.url);
/** Sizes in elements; the number of ranks does not divide 1031. */
const small: CollectiveCases = { sizes: [0, 1, 1031] };
const large: CollectiveCases = { sizes: [300_001], dtypes: ['float32', 'bfloat16'] };

async function run(count: number, more: Readonly<Record<string, string>>): Promise<FinishedRank[]> {
  const port = String(await freePort());
  const common = { WORLD_SIZE: String(count), MTL_STORE_PORT: port, MTL_JOB_SECRET: 'the secret of a test' };
  const ranks = Array.from({ length: count }, (_, rank) => ({ ...common, ...more, RANK: String(rank) }));
  return await startJoiningRanks('join-on-gpu.ts', ranks).finished;
}

interface Line {
  readonly engine: string;
  readonly messages: readonly string[];
  readonly hashes: Readonly<Record<string, string>>;
  readonly sums: readonly number[];
  readonly recorded?: ReceivedWhileRecording;
}

function printed({ stdout, stderr }: FinishedRank): Line {
  expect(stderr).toBe('');
  const line = JSON.parse(stdout) as Line;
  reportEngine(line.engine);
  return line;
}

/** True without Debian's libgloo, which is optional: the tests that need it are then skipped, and counted. */
const lacksGloo = glooProblem() !== undefined;
const backends = [
  { BACKEND: 'local', engine: 'staged+local', isSkipped: false },
  { BACKEND: 'gloo', engine: 'staged+gloo', isSkipped: lacksGloo },
];
// a GPU's first context takes seconds, which must not count towards the time-outs of the test
const timeout = isEmulated ? { ms: '1500', text: '1.5' } : { ms: '15000', text: '15' };

describe.skipIf(problem !== undefined)(
  `ranks that share a GPU (${title}) through the memory of the host`,
  () => {
    for (const { BACKEND, engine, isSkipped } of backends) {
      it.skipIf(isSkipped)(`give the bits of host tensors over ${BACKEND}`, async () => {
        for (const [worldSize, argument] of [
          [3, small],
          [2, large],
        ] as const) {
          const expected = await runInMemoryRanks<Record<string, string>>({
            ...typescriptThreads,
            worldSize,
            module,
            argument,
            timeoutMs: 60_000,
          });
          const lines = (await run(worldSize, { BACKEND, CASES: JSON.stringify(argument) })).map(printed);
          expect(lines.map(({ hashes }) => hashes)).toEqual(expected);
          const sum = (worldSize * (worldSize + 1)) / 2;
          for (const line of lines) expect(line).toMatchObject({ engine, sums: [sum, 10 * sum] });
        }
      });
    }

    for (const { BACKEND, engine, isSkipped } of backends) {
      it.skipIf(isSkipped)(`receive over ${BACKEND} while a graph is recorded, and after it`, async () => {
        const RECORDING = mkdtempSync(join(tmpdir(), 'mtl-recording-'));
        const [first] = (await run(2, { BACKEND, RECORDING })).map(printed);
        rmSync(RECORDING, { recursive: true });
        expect(first).toMatchObject({ engine, recorded: receivedWhileRecording });
      });
    }

    it('are told why it is this way', async () => {
      for (const each of await run(2, {})) {
        const { engine, messages } = printed(each);
        expect(engine).toBe('staged+local');
        expect(messages).toEqual([expect.stringMatching(/go through the host's memory \(local\): rank/)]);
      }
    });

    it('refuse an operation between a GPU and the host', async () => {
      for (const { stderr, status } of await run(2, { BACKEND: 'local', BEHAVIOUR: 'mixed' })) {
        expect(stderr).toContain('MTL_DEVICE');
        expect(status).not.toBe(0);
      }
    });

    it('all learn of the rank that fails, and of the one that never comes', async () => {
      const failed = await run(2, { BACKEND: 'local', BEHAVIOUR: 'abort 1' });
      expect(failed[0]!.stderr).toContain('rank 1 failed: Error: the loss is not a number');
      const late = await run(2, { BACKEND: 'local', BEHAVIOUR: 'silent 1', TIMEOUT_MS: timeout.ms });
      expect(late[0]!.stderr).toMatch(/MTL_TIMEOUT.*rank 1 did not come within [\d.]+ s/s);
      expect(late[0]!.stderr).toContain(`within ${timeout.text} s`);
      expect(late.map(({ status }) => status)).toEqual([1, 1]);
    });

    // few repetitions: each waits for delayed copies, which takes long on a busy machine
    it.skipIf(!isEmulated)('give them in whatever order streams come to their copies', async () => {
      const argument: CollectiveCases = { sizes: [1031], dtypes: ['float32'] };
      const expected = await runInMemoryRanks<Record<string, string>>({
        ...typescriptThreads,
        worldSize: 2,
        module,
        argument,
        timeoutMs: 60_000,
      });
      const variables = { BACKEND: 'local', CASES: JSON.stringify(argument), MTL_EMULATION_STREAMS: 'drawn' };
      const lines = (await run(2, variables)).map(printed);
      expect(lines.map(({ hashes }) => hashes)).toEqual(expected);
    });
  },
);
