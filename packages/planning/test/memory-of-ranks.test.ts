import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import {
  preparedCorpus,
  preparedSentences,
  processTestMs,
  runProcesses,
  writeBaseModel,
} from '@mtl/runs/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { MeasuredMemory } from './ranks/measure-memory.js';
import { ofGroups } from './support/sent-by-groups.js';

/** Activations are most of the memory, so that their changes are not small next to parameters. */
const recipe: RunOptions = {
  preset: 'none',
  model: {
    numLayers: 4,
    hiddenSize: 64,
    numAttentionHeads: 4,
    maxPositionEmbeddings: 256,
    attentionDropout: 0.1,
    hiddenDropout: 0.1,
  },
  data: { sequenceLength: 256, split: '90,10,0' },
  optimizer: { maxLearningRate: 1e-3, learningRateDecayStyle: 'constant', clipGrad: 1 },
  training: { evalIterations: 0 },
  layout: { threads: 1 },
};
interface PipelineSizes {
  readonly numChunks?: number;
  /** The smaller the model, the more the 0.6 MB of scratch of matmuls matter. */
  readonly microBatch?: number;
}

const tensor = (size: number): RunOptions => ({ layout: { tensorModelParallelSize: size } });
const context = (size: number, communication: 'p2p' | 'all_gather' | 'a2a' = 'p2p'): RunOptions => ({
  layout: { contextParallelSize: size, cpCommType: [communication] },
});
const pipeline = (
  size: number,
  schedule: string,
  { numChunks, microBatch = 4 }: PipelineSizes = {},
): RunOptions =>
  mergeOptions(
    { layout: { pipelineModelParallelSize: size, pipelineSchedule: schedule } },
    numChunks === undefined ? {} : { layout: { numVirtualStagesPerPipelineRank: numChunks } },
    { training: { globalBatchSize: 6 * microBatch, microBatchSize: microBatch, trainIterations: 1 } },
  );
const pickBatch = ({ training }: RunOptions): RunOptions =>
  training?.globalBatchSize !== undefined
    ? {}
    : { training: { globalBatchSize: 16, microBatchSize: 8, trainIterations: 2 } };
const sequence: RunOptions = { layout: { sequenceParallel: true } };
const distributed: RunOptions = {
  layout: { useDistributedOptimizer: true, overlapGradReduce: true, overlapParamGather: true },
};
const sharded: RunOptions = { layout: { useMegatronFsdp: true } };
const dividedGradients: RunOptions = { layout: { dataParallelShardingStrategy: 'optim_grads' } };
const twoInstances: RunOptions = {
  training: { globalBatchSize: 64, microBatchSize: 8, trainIterations: 2 },
  layout: { numDistributedOptimizerInstances: 2 },
};
const leanStates = (optimizer: RunOptions['optimizer']): RunOptions => ({
  training: { bf16: true },
  optimizer: { usePrecisionAwareOptimizer: true, ...optimizer },
});
const post: RunOptions = { model: { layerNormPlacement: 'post' } };
const rotary = mergeOptions(post, { model: { positionEmbeddingType: 'rope', rotaryInterleaved: true } });
const recompute: RunOptions = { training: { recomputeGranularity: 'full', recomputeMethod: 'uniform' } };
const lora: RunOptions = { lora: { rank: 8, dropout: 0.1, targets: ['c_attn', 'mlp.c_proj'] } };

const cases = [
  { name: 'one process', worldSize: 1, options: {} },
  { name: 'one process, recomputed', worldSize: 1, options: recompute },
  { name: 'one process, bf16', worldSize: 1, options: { training: { bf16: true } } },
  {
    name: 'one process, bf16, lean states',
    worldSize: 1,
    options: leanStates({ expAvgDtype: 'bf16', expAvgSqDtype: 'fp16' }),
  },
  {
    name: 'dp 2, distributed, bf16, lean states',
    worldSize: 2,
    options: mergeOptions(
      distributed,
      leanStates({ expAvgDtype: 'fp16', expAvgSqDtype: 'bf16', mainGradsDtype: 'bf16' }),
    ),
  },
  {
    name: 'tp 2, bf16, states of 16 bits and whole master weights',
    worldSize: 2,
    options: mergeOptions(
      tensor(2),
      leanStates({ expAvgDtype: 'fp16', expAvgSqDtype: 'fp16', storeParamRemainders: false }),
    ),
  },
  { name: 'tp 2', worldSize: 2, options: tensor(2) },
  { name: 'tp 2, sequence parallel', worldSize: 2, options: mergeOptions(tensor(2), sequence) },
  {
    name: 'tp 2, sequence parallel, recomputed',
    worldSize: 2,
    options: mergeOptions(tensor(2), sequence, recompute),
  },
  {
    name: 'tp 2, sequence parallel, bf16',
    worldSize: 2,
    options: mergeOptions(tensor(2), sequence, { training: { bf16: true } }),
  },
  { name: 'dp 2', worldSize: 2, options: {} },
  { name: 'dp 2, distributed optimizer', worldSize: 2, options: distributed },
  {
    name: 'dp 2, distributed optimizer, bf16',
    worldSize: 2,
    options: mergeOptions(distributed, { training: { bf16: true } }),
  },
  { name: 'dp 2, fully sharded', worldSize: 2, options: sharded },
  {
    name: 'dp 2, fully sharded, recomputed, bf16, lean states',
    worldSize: 2,
    options: mergeOptions(sharded, recompute, leanStates({ expAvgDtype: 'bf16', mainGradsDtype: 'bf16' })),
  },
  {
    name: 'pp 2 x dp 2, fully sharded',
    worldSize: 4,
    options: mergeOptions(sharded, pipeline(2, '1f1b'), { training: { globalBatchSize: 48 } }),
  },
  {
    name: 'tp 2 x dp 2, fully sharded',
    worldSize: 4,
    options: mergeOptions(sharded, tensor(2), sequence, recompute),
  },
  { name: 'dp 2, divided gradients', worldSize: 2, options: dividedGradients },
  {
    name: 'tp 2 x dp 2, fully sharded, Muon',
    worldSize: 4,
    options: mergeOptions(sharded, tensor(2), sequence, { optimizer: { optimizer: 'muon' } }),
  },
  { name: 'dp 4, distributed, 2 instances', worldSize: 4, options: mergeOptions(distributed, twoInstances) },
  {
    name: 'dp 4, divided gradients, 2 instances, bf16',
    worldSize: 4,
    options: mergeOptions(dividedGradients, twoInstances, { training: { bf16: true } }),
  },
  { name: 'dp 4, fully sharded, 2 instances', worldSize: 4, options: mergeOptions(sharded, twoInstances) },
  { name: 'LoRA, dp 2, fully sharded', worldSize: 2, options: mergeOptions(lora, sharded) },
  { name: 'cp 2', worldSize: 2, options: context(2) },
  { name: 'cp 2, keys by all-gather', worldSize: 2, options: context(2, 'all_gather') },
  { name: 'cp 2, heads exchanged', worldSize: 2, options: mergeOptions(context(2, 'a2a'), recompute) },
  {
    name: 'tp 2 x cp 2, bf16',
    worldSize: 4,
    options: mergeOptions(tensor(2), context(2), sequence, distributed, { training: { bf16: true } }),
  },
  { name: 'tp 4, sequence parallel', worldSize: 4, options: mergeOptions(tensor(4), sequence) },
  { name: 'pp 2', worldSize: 2, options: pipeline(2, '1f1b') },
  { name: 'pp 2, all forward first', worldSize: 2, options: pipeline(2, 'gpipe') },
  { name: 'pp 2, recomputed', worldSize: 2, options: mergeOptions(pipeline(2, 'gpipe'), recompute) },
  { name: 'pp 2, interleaved', worldSize: 2, options: pipeline(2, 'interleaved', { numChunks: 2 }) },
  { name: 'pp 2, breadth-first', worldSize: 2, options: pipeline(2, 'breadth-first', { numChunks: 2 }) },
  { name: 'pp 2, zb-h1', worldSize: 2, options: pipeline(2, 'zb-h1') },
  { name: 'pp 2, zb-h2', worldSize: 2, options: pipeline(2, 'zb-h2') },
  { name: 'pp 2, zb-v', worldSize: 2, options: pipeline(2, 'zb-v') },
  {
    name: 'pp 2 x tp 2, zb-v, sequence parallel, bf16',
    worldSize: 4,
    options: mergeOptions(pipeline(2, 'zb-v', { microBatch: 8 }), tensor(2), sequence, {
      training: { bf16: true },
    }),
  },
  {
    name: 'pp 2 x tp 2, sequence parallel, bf16',
    worldSize: 4,
    options: mergeOptions(pipeline(2, '1f1b', { microBatch: 8 }), tensor(2), sequence, {
      training: { bf16: true },
    }),
  },
  {
    name: 'tp 2 x dp 2, everything',
    worldSize: 4,
    options: mergeOptions(tensor(2), sequence, distributed),
  },
  { name: 'LoRA, one process', worldSize: 1, options: lora },
  { name: 'LoRA, dp 2, distributed optimizer', worldSize: 2, options: mergeOptions(lora, distributed) },
  {
    name: 'LoRA, tp 2, sequence parallel, bf16, recomputed',
    worldSize: 2,
    options: mergeOptions(lora, tensor(2), sequence, { training: { bf16: true } }, recompute),
  },
  { name: 'BERT, one process', worldSize: 1, model: 'bert', options: {} },
  { name: 'BERT, one process, norms after sublayers', worldSize: 1, model: 'bert', options: post },
  {
    name: 'BERT, pp 2, rotary positions',
    worldSize: 2,
    model: 'bert',
    options: mergeOptions(pipeline(2, '1f1b'), rotary),
  },
  {
    name: 'BERT, tp 2, sequence parallel',
    worldSize: 2,
    model: 'bert',
    options: mergeOptions(tensor(2), sequence),
  },
  { name: 'BERT, dp 2, distributed optimizer', worldSize: 2, model: 'bert', options: distributed },
  { name: 'BERT, pp 2', worldSize: 2, model: 'bert', options: mergeOptions(pipeline(2, '1f1b'), post) },
  { name: 'BERT, pp 2, zb-v', worldSize: 2, model: 'bert', options: pipeline(2, 'zb-v') },
  {
    name: 'BERT, pp 2 x tp 2, sequence parallel, bf16',
    worldSize: 4,
    model: 'bert',
    options: mergeOptions(pipeline(2, '1f1b', { microBatch: 8 }), tensor(2), sequence, {
      training: { bf16: true },
    }),
  },
] as const;
const names = cases.map(({ name }) => name);
type Name = (typeof names)[number];

/**
 * Returns the most bytes that wait at a sender whose receiver is slow: the output of each of six
 * micro-batches.
 */
function waitingBytes(name: Name): number {
  const { layout, training }: RunOptions = cases.find((each) => each.name === name)!.options;
  if (layout?.pipelineModelParallelSize === undefined) return 0;
  const bytes = training?.bf16 ? 2 : 4;
  const ranks = layout.sequenceParallel ? 2 : 1;
  return (6 * training!.microBatchSize! * 256 * 64 * bytes) / ranks;
}

const isAdapted = (name: string): boolean => name.startsWith('LoRA');

describe('the memory of a rank, in processes that train', () => {
  const measured = new Map<Name, readonly MeasuredMemory[]>();
  let directory: string;

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'mtl-memory-'));
    const base = join(directory, 'base');
    await writeBaseModel(recipe, base);
    const corpora = {
      gpt: await preparedCorpus(directory),
      // documents much longer than a sequence, so that samples fill theirs
      bert: mergeOptions(await preparedSentences(directory, { numSentences: 900 }), {
        model: { kind: 'bert', shortSequenceProbability: 0 },
      }),
    };
    for (const worldSize of [1, 2, 4]) {
      const own = cases.filter((each) => each.worldSize === worldSize);
      const ranks = await runProcesses<MeasuredMemory[]>({
        worldSize,
        module: new URL('./ranks/measure-memory.ts', import.meta.url),
        argument: own.map((each) => {
          const corpus = corpora['model' in each ? each.model : 'gpt'];
          const start = isAdapted(each.name) ? { checkpoint: { loadHuggingFace: base } } : {};
          return mergeOptions(recipe, corpus, pickBatch(each.options), each.options, start);
        }),
      });
      own.forEach(({ name }, index) => {
        measured.set(
          name,
          ranks.map((results) => results[index]!),
        );
      });
    }
  }, 3 * processTestMs);
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  it.each(names)('is what a dry run counts: %s', (name) => {
    for (const { peak, dry } of measured.get(name)!) {
      // a message waits at its sender until the receiver takes it, which happens at once in a dry run
      const waiting = waitingBytes(name);
      expect(peak).toBeGreaterThanOrEqual(waiting === 0 ? dry.peakBytes : 0.99 * dry.peakBytes);
      expect(peak).toBeLessThanOrEqual(dry.peakBytes + waiting);
    }
  });

  it('holds an optimizer of the adapters alone', () => {
    const [{ dry: whole }] = measured.get('one process') as [MeasuredMemory];
    const [{ dry: adapted }] = measured.get('LoRA, one process') as [MeasuredMemory];
    const numAdapted = adapted.numParameters - whole.numParameters;
    const { parameters, gradients, optimizer } = adapted.memoryByKind;
    // float32, with the padding of buffers and the rounding of allocators, at most an eighth of each
    const rounded = 9 / 8;
    expect(parameters).toBeGreaterThanOrEqual(4 * adapted.numParameters);
    expect(parameters).toBeLessThan(4 * adapted.numParameters * rounded);
    expect(gradients).toBeGreaterThanOrEqual(4 * numAdapted);
    expect(gradients).toBeLessThan(4 * numAdapted * rounded);
    // two moments
    expect(optimizer).toBeGreaterThanOrEqual(8 * numAdapted);
    expect(optimizer).toBeLessThan(whole.memoryByKind.optimizer / 8);
  });

  it.each(names)('comes with the FLOPs and bytes that a dry run counts: %s', (name) => {
    for (const { flops, sentBytes, dry } of measured.get(name)!) {
      const { world: _, embedding: __, ...sent } = dry.sentBytes;
      if (name.startsWith('BERT')) {
        // samples of a corpus do not all fill their sequences; samples of a dry run do
        expect(flops / dry.flops).toBeGreaterThan(0.95);
        expect(flops).toBeLessThanOrEqual(dry.flops);
        expect((sentBytes.pp ?? 0) / (sent.pp ?? 1)).toBeLessThanOrEqual(1);
      } else {
        expect({ flops, sentBytes }).toEqual({ flops: dry.flops, sentBytes: ofGroups(sent, sentBytes) });
      }
    }
  });
});
