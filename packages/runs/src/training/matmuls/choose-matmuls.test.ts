import type { Checkpoint } from '@mtl/checkpoint';
import { configure, type RecordedMatmuls } from '@mtl/configuration';
import { matmulChoicesInUse, useMatmulChoices } from '@mtl/kernels/matmul-choices';
import type { TransformerConfiguration } from '@mtl/models';
import { afterEach, describe, expect, it } from 'vitest';
import { TrainingProcesses } from '../../parts/ranks/training-processes.js';
import { chooseMatmuls } from './choose-matmuls.js';
import { formatPlatform, matmulPlatform } from './matmul-platform.js';

const device = { device: 'cpu' } as const;
const configuration = configure(
  { preset: 'char-10m', data: { dataPath: ['bundled'] }, training: { trainIterations: 1 } },
  { worldSize: 1 },
);
const platform = formatPlatform(matmulPlatform('cpu'));
const choices = { 'float32,float32,1,3,5,7,nn': 'blocks' };

/** Begins a run without --time-matmuls from a checkpoint with the given matmul choices. */
async function resume(matmuls: RecordedMatmuls | undefined) {
  const messages: string[] = [];
  const state = { configuration: matmuls === undefined ? {} : { matmuls } };
  const chosen = await chooseMatmuls(configuration, {
    model: {} as TransformerConfiguration,
    processes: new TrainingProcesses({ world: undefined, parallel: configuration.parallel }),
    planning: undefined,
    resumed: { path: 'before/iter_0000007', state } as unknown as Checkpoint,
    onMessage: (text) => void messages.push(text),
    variables: {},
  });
  return { chosen, messages };
}

describe('matmuls of a run that resumes', () => {
  afterEach(() => useMatmulChoices({}, device));

  it('use the choices of the checkpoint, without a word and without timing', async () => {
    const recorded = { platform, choices };
    expect(await resume(recorded)).toEqual({ chosen: recorded, messages: [] });
    expect(matmulChoicesInUse(device)).toEqual(choices);
  });

  it('do not use the choices of another platform, and a message says so', async () => {
    const other = platform.replace(/threads \d+/, 'threads 77');
    const { chosen, messages } = await resume({ platform: other, choices });
    expect(chosen).toBeUndefined();
    expect(matmulChoicesInUse(device)).toEqual({});
    expect(messages).toEqual([expect.stringMatching(/before\/iter_0000007 were chosen for .*threads 77/)]);
  });

  it('have no choices where the checkpoint has none', async () => {
    expect(await resume(undefined)).toEqual({ chosen: undefined, messages: [] });
  });
});
