import { availableParallelism } from 'node:os';
import type { Checkpoint } from '@mtl/checkpoint';
import { configure, type RunOptions } from '@mtl/configuration';
import { smallRun } from '@mtl/configuration/testing';
import { hostInformation, setNumThreads } from '@mtl/kernels';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { flopsPerThread, threadsOfTraining } from './threads-of-run.js';

const before = hostInformation().numThreads;
beforeEach(() => void vi.stubEnv('MTL_FREE_CORES', 'all'));
afterEach(() => {
  vi.unstubAllEnvs();
  setNumThreads(before);
});

/** Makes a checkpoint of a run with one process. */
const makeCheckpoint = (threads: unknown): Checkpoint =>
  ({ manifest: { worldSize: 1 }, state: { configuration: { threads } } }) as unknown as Checkpoint;

async function choose(options: {
  readonly layout?: RunOptions['layout'];
  readonly worldSize?: number;
  readonly flopsPerSample?: number;
  readonly localSize?: number;
  readonly resumed?: Checkpoint;
}): Promise<string> {
  const { layout, worldSize = 1, localSize = 1, resumed, flopsPerSample = 1e15 } = options;
  let printed = '';
  const { count } = await threadsOfTraining({
    configuration: configure({ ...smallRun, layout }, { worldSize }),
    flopsPerSample,
    localSize,
    resumed,
    onMessage: (text) => {
      printed += text;
    },
  });
  expect(hostInformation().numThreads).toBe(count);
  return printed;
}

const cores = availableParallelism();
/** Returns the expected message. On a machine with one core, the choice is always one thread. */
const onSeveralCores = (text: string): string => (cores > 1 ? text : 'threads 1: one core');

describe('threadsOfTraining', () => {
  it('gives the kernels the threads that it prints', async () => {
    expect(await choose({ layout: { threads: 3 } })).toBe('threads 3: as --threads says');
    expect(await choose({})).toMatch(`threads ${cores}: one`);
  });

  it('gives a tiny model one thread, and a small rank of a large one', async () => {
    // a micro-batch has 2 samples, so its FLOPs are just too few for a second thread
    const flopsPerSample = flopsPerThread - 1;
    expect(await choose({ flopsPerSample })).toMatch(onSeveralCores('threads 1: more would slow down'));
    const layout = { tensorModelParallelSize: 2, pipelineModelParallelSize: 2 };
    const rank = { flopsPerSample: 3 * flopsPerThread, worldSize: 4, layout };
    expect(await choose(rank)).toMatch(onSeveralCores('threads 1: more would slow down'));
  });

  it('leaves cores to others where a process is alone', async () => {
    vi.stubEnv('MTL_FREE_CORES', '1');
    expect(await choose({})).toMatch(onSeveralCores(`threads 1: 1.0 of ${cores} cores are free`));
    expect(await choose({ worldSize: 2 })).toMatch(`threads ${cores}: one for each core`);
  });

  it('shares the cores of a host', async () => {
    expect(await choose({ worldSize: 2, localSize: 2 * cores })).toMatch('threads 1: one core');
  });

  it('takes the threads of the checkpoint that training resumes from', async () => {
    expect(await choose({ resumed: makeCheckpoint(1) })).toMatch('threads 1: as the checkpoint');
    expect(await choose({ resumed: makeCheckpoint(1), layout: { threads: 2 } })).toMatch(
      'threads 2: as --threads',
    );
    expect(await choose({ resumed: makeCheckpoint(1), worldSize: 2 })).not.toMatch('checkpoint');
    for (const unknown of [undefined, 0, 'all', 1.5]) {
      expect(await choose({ resumed: makeCheckpoint(unknown) })).not.toMatch('checkpoint');
    }
  });
});
