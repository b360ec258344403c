import {
  type ConversationSamples,
  flagsOfOptions,
  type RunOptions,
  validateConfiguration,
} from '@mtl/configuration';
import { KernelError, type MtlError } from '@mtl/errors';
import { hostInformation, limitMemory } from '@mtl/kernels';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { explainOutOfMemory } from './explain-out-of-memory.js';

vi.mock('@mtl/kernels', async (original) => {
  const kernels = await original<typeof import('@mtl/kernels')>();
  return { ...kernels, hostInformation: vi.fn(kernels.hostInformation) };
});

const full = new KernelError('MTL_OUT_OF_MEMORY', 'the system has no 8 bytes', { remedy: 'in general' });

interface HowItRan {
  readonly worldSize?: number;
  readonly rank?: number;
  readonly conversations?: ConversationSamples;
}

async function findRemedy(options: RunOptions, how: HowItRan = {}) {
  const { worldSize = 1, rank = 0, conversations } = how;
  const resolved = flagsOfOptions(options);
  const configuration = validateConfiguration(resolved, { worldSize, conversations });
  const explained = await explainOutOfMemory(full, { resolved, configuration, conversations, rank });
  return (explained as MtlError).remedy!;
}

/** Returns the changes that a remedy lists, without the memory printed for each change. */
const listNames = (remedy: string): string[] =>
  remedy
    .slice('use less memory: '.length)
    .split('; ')
    .map((each) => each.replace(/ \(.*$/, ''));

describe('explainOutOfMemory', () => {
  afterEach(() => limitMemory('meta', 0));

  it('names what takes less, how much, and the command that tells more', async () => {
    const remedy = await findRemedy({ training: { microBatchSize: 4, globalBatchSize: 4 } });
    expect(remedy).toMatch(/^use less memory: --micro-batch-size 1 \(\d+\.\d MiB instead of \d+\.\d MiB\); /);
    // --bf16 may or may not save memory here, depending on the size of activations, so it is not compared
    expect(listNames(remedy).filter((name) => name !== '--bf16')).toEqual([
      '--micro-batch-size 1',
      '--recompute-granularity full --recompute-method uniform --recompute-num-layers 1',
      'more processes with a larger --tensor-model-parallel-size or --pipeline-model-parallel-size. ' +
        'mtl plan --profile NAME --num-processes 1 -- FLAGS prints the memory of each rank',
    ]);
  });

  it('names on WebAssembly only what fits, and native kernels', async () => {
    const host = hostInformation();
    vi.mocked(hostInformation).mockReturnValue({ ...host, isWebAssembly: true });
    const native = 'install native kernels, which use all memory of the machine (mtl doctor says how)';
    const run: RunOptions = { training: { microBatchSize: 4, globalBatchSize: 4 } };
    const remedy = await findRemedy(run);
    expect(remedy).toMatch(/^use less memory: --micro-batch-size 1 \(\d+\.\d MiB instead of .*; or install/);
    expect(remedy).not.toContain('more processes');
    limitMemory('meta', 1000);
    expect(await findRemedy(run)).toBe(native);
    vi.mocked(hostInformation).mockReturnValue(host);
  });

  it('names what takes less in a run whose steps are counted by epochs', async () => {
    const options: RunOptions = {
      preset: 'gpt2-4m',
      data: { trainData: ['a'], epochs: 1 },
      training: { microBatchSize: 4, globalBatchSize: 4 },
    };
    const remedy = await findRemedy(options, { conversations: { numTrain: 8, numValidation: 0 } });
    expect(listNames(remedy)[0]).toBe('--micro-batch-size 1');
  });

  it('spreads experts over more of the processes that there are', async () => {
    const experts: RunOptions = {
      preset: 'none',
      model: {
        numLayers: 2,
        hiddenSize: 64,
        numAttentionHeads: 4,
        maxPositionEmbeddings: 32,
        disableBiasLinear: true,
        numExperts: 8,
      },
      data: { dataPath: ['a'], sequenceLength: 32, tokenizerType: 'NullTokenizer', vocabSize: 99 },
      training: { microBatchSize: 1, globalBatchSize: 4, trainIterations: 1 },
      optimizer: { maxLearningRate: 1 },
    };
    const names = listNames(await findRemedy(experts, { worldSize: 4 }));
    // the 8 experts could be sharded over 8 processes, but there are only 4
    expect(names.filter((name) => name.includes('expert'))).toEqual([
      '--expert-model-parallel-size 2',
      '--expert-model-parallel-size 4',
    ]);
    const spread = { ...experts, layout: { expertModelParallelSize: 2 } };
    const more = listNames(await findRemedy(spread, { worldSize: 4 }));
    expect(more.filter((name) => name.includes('expert'))).toEqual(['--expert-model-parallel-size 4']);
  });

  it('leaves out what is passed already', async () => {
    const layout = { tensorModelParallelSize: 2 };
    const training = { microBatchSize: 1, bf16: true };
    const remedy = await findRemedy({ model: { kind: 'bert' }, layout, training }, { worldSize: 4 });
    expect(listNames(remedy).slice(0, 2)).toEqual(['--use-distributed-optimizer', '--sequence-parallel']);
    expect(remedy).not.toMatch(/--bf16|--micro-batch/);
    expect(remedy).toContain('mtl plan --model bert --profile NAME --num-processes 4');
    const everything: RunOptions = {
      layout: { ...layout, useDistributedOptimizer: true, sequenceParallel: true },
      training: { ...training, recomputeGranularity: 'full', recomputeMethod: 'uniform' },
    };
    expect(await findRemedy(everything, { worldSize: 2 })).toMatch(/^use less memory: more processes/);
  });

  it('says that recorded passes take memory', async () => {
    const layout = { device: 'cuda', pipelineModelParallelSize: 2 } as const;
    const training = { microBatchSize: 1 };
    const graphs = await findRemedy({ layout: { ...layout, cudaGraphs: true }, training }, { worldSize: 2 });
    expect(graphs).toMatch(/^use less memory: no --cuda-graphs/);
    expect(await findRemedy({ layout, training }, { worldSize: 2 })).not.toContain('cuda-graphs');
  });

  it('names changes without numbers where no dry run succeeds', async () => {
    limitMemory('meta', 1);
    const remedy = await findRemedy({ training: { microBatchSize: 4, globalBatchSize: 4 } });
    expect(remedy).toMatch(/^use less memory: --micro-batch-size 1; --recompute-granularity full/);
  });

  it('leaves other errors as they are', async () => {
    const other = new KernelError('MTL_SHAPE', 'other');
    expect(await explainOutOfMemory(other, undefined as never)).toBe(other);
    expect(await explainOutOfMemory('text', undefined as never)).toBe('text');
  });
});
