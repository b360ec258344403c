import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CommunicationOperation, glooProblem, type OperationCount } from '@mtl/comm';
import type { RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TrainGptArgument, TrainGptResult } from './ranks/train-gpt.js';
import { preparedCorpus } from './support/prepared-corpus.js';
import { processTestMs, runProcesses } from './support/run-processes.js';

// S sequence, B micro-batch, H hidden, t tensor-parallel ranks
const [S, B, H] = [64, 2, 64];
const numSteps = 2;
const microBatchesPerStep = 3;
const numMicroBatches = numSteps * microBatchesPerStep;

let directory: string;
let corpus: RunOptions;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-bytes-'));
  corpus = await preparedCorpus(directory);
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const recipe: RunOptions = {
  preset: 'none',
  model: {
    hiddenSize: H,
    numAttentionHeads: 4,
    maxPositionEmbeddings: S,
    attentionDropout: 0.1,
    hiddenDropout: 0.1,
  },
  data: { sequenceLength: S, split: '90,10,0' },
  training: { microBatchSize: B, trainIterations: numSteps, evalIterations: 0 },
  optimizer: { maxLearningRate: 1e-3, learningRateDecayStyle: 'constant', clipGrad: 1 },
  layout: { threads: 1 },
};

/** The kinds of training runs: the options in which they differ. */
const kinds = {
  float32: {},
  bfloat16: { training: { bf16: true } },
  'sequence parallel': { layout: { sequenceParallel: true } },
  recomputed: { training: { recomputeGranularity: 'full', recomputeMethod: 'uniform' } },
} as const satisfies Record<string, RunOptions>;
type Kind = keyof typeof kinds;
const kindNames = Object.keys(kinds) as Kind[];

type Counts = Readonly<Record<CommunicationOperation, Pick<OperationCount, 'calls' | 'sentBytes'>>>;
const noCount = { calls: 0, sentBytes: 0 };

interface LayerAndWhole {
  readonly layer: Counts;
  /** The counts of one micro-batch with a model of two layers. */
  readonly whole: Counts;
}

interface Counted {
  /** The counts of a layer, by tensor-parallel ranks and kind of training run. */
  readonly layers: ReadonlyMap<number, ReadonlyMap<Kind, LayerAndWhole>>;
  /** The results of every rank, in two training runs of a pipeline. */
  readonly pipelines: readonly TrainGptResult[][];
}

const worldSize = 4;
const tensorSizes = [2, 4];

const training = (t: number, options: RunOptions, p = 1): TrainGptArgument => {
  const batch = B * microBatchesPerStep * (worldSize / t / p);
  const mesh: RunOptions = { layout: { tensorModelParallelSize: t, pipelineModelParallelSize: p } };
  return { options: mergeOptions(recipe, corpus, mesh, { training: { globalBatchSize: batch } }, options) };
};

/**
 * Returns the counts of the engine of four ranks as threads, since processes take longer to start than these
 * models to train. The bytes of a layer and a micro-batch are the difference between training runs of four
 * and of two layers, which have the same embedding, head, loss and norm. Every rank must have the same
 * counts. Ranks that tensor parallelism does not need are data-parallel, with a separate group.
 */
async function countOn(engine: 'local' | 'gloo'): Promise<Counted> {
  const ofLayers = tensorSizes.flatMap((t) =>
    kindNames.flatMap((kind) =>
      [2, 4].map((numLayers) => training(t, mergeOptions({ model: { numLayers } }, kinds[kind]))),
    ),
  );
  const ofPipelines = [{}, { layout: { sequenceParallel: true } }].map((kind) =>
    training(2, mergeOptions({ model: { numLayers: 2 } }, kind), 2),
  );
  const module = new URL('./ranks/train-gpt.ts', import.meta.url);
  const argument = [...ofLayers, ...ofPipelines];
  const ranks = await runProcesses<TrainGptResult[]>({ worldSize, module, argument, engine });
  const layers = tensorSizes.map((t, size) => {
    const ofKinds = kindNames.map((kind, index) => {
      const first = 2 * (kindNames.length * size + index);
      const counts = ranks.map((results) => perLayer(results[first]!, results[first + 1]!));
      for (const other of counts) expect(other).toEqual(counts[0]);
      return [kind, counts[0]!] as const;
    });
    return [t, new Map(ofKinds)] as const;
  });
  const pipelines = ranks.map((results) => results.slice(ofLayers.length));
  return { layers: new Map(layers), pipelines };
}

function perLayer({ tensorParallel: two }: TrainGptResult, { tensorParallel: four }: TrainGptResult) {
  const map = (value: (name: CommunicationOperation, key: 'calls' | 'sentBytes') => number): Counts => {
    const names = Object.keys(two!) as CommunicationOperation[];
    const entries = names.map((name) => [
      name,
      {
        calls: value(name, 'calls') / numMicroBatches,
        sentBytes: value(name, 'sentBytes') / numMicroBatches,
      },
    ]);
    return Object.fromEntries(entries) as Counts;
  };
  return {
    layer: map((name, key) => (four![name][key] - two![name][key]) / 2),
    whole: map((name, key) => two![name][key]),
  };
}

describe.each([
  { engine: 'local', problem: undefined },
  { engine: 'gloo', problem: glooProblem() },
] as const)('processes over $engine', ({ engine, problem }) => {
  const needs = engine === 'gloo' ? ' (libgloo-dev)' : '';
  let counted: Counted;
  beforeAll(async () => {
    if (problem === undefined) counted = await countOn(engine);
  }, processTestMs);

  // sizes divide by the group size and by cache lines, so that no engine rounds a slice: the numbers are
  // exact
  describe.each(tensorSizes)('a layer that trains on %i tensor-parallel processes', (t) => {
    const findCounts = (kind: Kind): LayerAndWhole => counted.layers.get(t)!.get(kind)!;
    const whole = (bytesPerElement: number): number => B * S * H * bytesPerElement;
    /** Returns the least bytes that a rank sends in a collective over `bytes`. */
    const share = (bytes: number): number => (bytes * (t - 1)) / t;

    it.skipIf(problem)(`sends 8 B S H (t - 1) / t elements in 4 all-reduces${needs}`, () => {
      // Shoeybi et al. 2019, section 3: two in forward, two in backward; each sends 2 B S H (t - 1) / t
      for (const [kind, bytesPerElement] of [['float32', 4] as const, ['bfloat16', 2] as const]) {
        expect(findCounts(kind).layer, kind).toEqual({
          allGather: noCount,
          reduceScatter: noCount,
          broadcast: noCount,
          allToAll: noCount,
          send: noCount,
          receive: noCount,
          barrier: noCount,
          allReduce: { calls: 4, sentBytes: 8 * share(whole(bytesPerElement)) },
        });
      }
    });

    it.skipIf(problem)(
      `gathers 4 times, scatters 4 times and gathers 2 again, sharded along the sequence${needs}`,
      () => {
        const { allGather, reduceScatter, allReduce } = findCounts('sequence parallel').layer;
        // Korthikanti et al. 2022, section 4.2.2: an all-reduce is a scattering and a gathering; backward
        // gathers the inputs of the two column-parallel matmuls again instead of keeping them
        expect(allGather).toEqual({ calls: 4 + 2, sentBytes: (4 + 2) * share(whole(4)) });
        expect(reduceScatter).toEqual({ calls: 4, sentBytes: 4 * share(whole(4)) });
        // once a step, with the other partial gradients: two norms (2 H each) and two row-parallel biases (H
        // each)
        const partial = 6 * H * 4;
        expect(allReduce).toEqual({ calls: 0, sentBytes: (2 * share(partial)) / microBatchesPerStep });
      },
    );

    it.skipIf(problem)(`sends what forward sends once more with full recomputation${needs}`, () => {
      expect(findCounts('recomputed').layer.allReduce).toEqual({
        calls: 6,
        sentBytes: 12 * share(whole(4)),
      });
    });

    // with more than two members, engines send a small tensor completely to all members: one round of
    // messages instead of two
    if (t > 2) return;
    it.skipIf(problem)(`sends B S numbers for the loss, not B S V${needs}`, () => {
      // in addition to two layers: the sum of embeddings, the sum of the head's input gradients, and for each
      // token the maximum, the sum of exponentials and the label's logit, in two all-reduces of float32
      const loss = 3 * B * S * 4;
      expect(findCounts('float32').whole.allReduce).toEqual({
        calls: 4 * 2 + 2 + 2,
        sentBytes: (4 * 2 + 2) * whole(4) + loss,
      });
    });
  });

  it.skipIf(problem)(
    `of two stages, two tensor-parallel ranks each, send half of a boundary tensor each, sharded along the sequence or not${needs}`,
    () => {
      // Narayanan et al. 2021, section 4.1: B S H / t to the next stage, and the same size back in backward
      const expected = { calls: numMicroBatches, sentBytes: (numMicroBatches * B * S * H * 4) / 2 };
      for (const results of counted.pipelines) {
        expect(results).toHaveLength(2);
        for (const { pipeline } of results) expect(pipeline!.send).toMatchObject(expected);
      }
    },
  );
});
