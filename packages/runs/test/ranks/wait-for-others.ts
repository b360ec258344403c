import { appendFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import type { World } from '@mtl/comm';
import { TrainingProcesses } from '../../src/parts/ranks/training-processes.js';

export interface WaitForOthersArgument {
  /** Milliseconds that rank 0 needs to prepare. */
  readonly preparingMs: number;
  readonly intervalMs: number;
  /** The rank whose task fails. */
  readonly failingRank?: number;
  /** Path of a file into which every rank writes its number when it prepares. */
  readonly log: string;
}

export interface WaitForOthersResult {
  /** The number of messages between this rank and the others while rank 0 prepared. */
  readonly numContacts: number;
  readonly agreed: unknown;
  readonly nothing: unknown;
}

/** Ranks with even numbers are the first on their hosts. */
export default async function waitForOthers(
  world: World,
  { preparingMs, intervalMs, failingRank, log }: WaitForOthersArgument,
): Promise<WaitForOthersResult> {
  const processes = new TrainingProcesses({
    world,
    parallel: { tensorModelParallelSize: 2, pipelineModelParallelSize: 1, dataParallelSize: world.size / 2 },
  });
  await processes.together(
    async () => {
      if (world.rank === failingRank) throw new Error(`rank ${world.rank} cannot`);
      if (processes.isFirst) await pause(preparingMs);
    },
    { intervalMs },
  );
  const numContacts = world.group.statistics().allReduce.calls;
  await processes.prepare(async () => appendFileSync(log, String(world.rank)), {
    isFirstOnHost: world.rank % 2 === 0,
  });
  const nothing = processes.agree(world.rank === 0 ? undefined : 'something');
  return {
    numContacts,
    nothing,
    agreed: processes.agree({ rank: world.rank, text: 'äöü', numbers: [Number.NaN, -Infinity] }),
  };
}
