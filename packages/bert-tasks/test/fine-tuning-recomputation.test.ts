import { configure, optionsOfFlags, type RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { dryRun } from '@mtl/planning';
import { processTestMs, runProcesses } from '@mtl/runs/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { FineTuningConfiguration } from '../src/flags/fine-tuning-configuration.js';
import { SmallTasks } from './support/small-tasks.js';
import { readSteps } from './support/task-steps.js';

/** Activations are most of the memory, so that the effect of recomputation is not hidden by parameters. */
const sizes = { numLayers: 4, hiddenSize: 128, numAttentionHeads: 4 };
const [sequenceLength, microBatchSize, numMicroBatches] = [256, 4, 4];

type Recompute = FineTuningConfiguration['recompute'];
const ways: Readonly<Record<string, Recompute>> = {
  uniform: { 'recompute-granularity': 'full', 'recompute-method': 'uniform' },
  block: { 'recompute-granularity': 'full', 'recompute-method': 'block', 'recompute-num-layers': 1 },
};

const layouts = [
  { name: 'one process', worldSize: 1, parallel: {} },
  {
    name: 'two stages',
    worldSize: 2,
    parallel: { 'pipeline-model-parallel-size': 2, 'pipeline-schedule': 'gpipe' },
  },
] as const;

/** The options of pretraining a model with the same layers. */
const pretraining: RunOptions = {
  preset: 'none',
  model: { kind: 'bert', ...sizes, maxPositionEmbeddings: sequenceLength },
  layout: { threads: 1 },
  optimizer: { maxLearningRate: 1e-3 },
  data: { dataPath: ['bundled'], sequenceLength, tokenizerType: 'NullTokenizer', vocabSize: 128 },
  training: {
    microBatchSize,
    globalBatchSize: numMicroBatches * microBatchSize,
    trainIterations: 1,
  },
};

describe('recomputation in a fine-tuning', () => {
  let tasks: SmallTasks;
  beforeAll(() => {
    tasks = new SmallTasks();
    // questions with more words than fit into a sequence, so that every sample fills its sequence
    const question = 'red blue green one two three cat dog bird says who answer '.repeat(20);
    const rows = (count: number): string =>
      Array.from(
        { length: count },
        (_, index) =>
          `${index}\t0\t0\t${index % 3 === 0 ? 'cat' : 'dog'} ${question}\t${question}\t${index % 2}\n`,
      ).join('');
    const header = 'id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n';
    tasks.write('long/train.tsv', header + rows(2 * numMicroBatches * microBatchSize));
    tasks.write('long/dev.tsv', header + rows(3));
  });
  afterAll(() => tasks.remove());

  it.each(layouts)(
    'takes as much less memory as in pretraining, and changes no bit of the curve: $name',
    async ({ name, worldSize, parallel }) => {
      const locateMetrics = (way: string): string => tasks.path(`${name}-${way}.jsonl`);
      const makeConfiguration = (way: string, recompute: Recompute): FineTuningConfiguration => {
        const base = tasks.configuration('qqp', {
          sequenceLength,
          microBatchSize,
          globalBatchSize: numMicroBatches * microBatchSize,
          epochs: 1,
          parallel: { threads: 1, ...parallel },
          recompute,
          metricsJsonl: locateMetrics(way),
          data: { train: tasks.path('long/train.tsv'), valid: [tasks.path('long/dev.tsv')], test: [] },
        });
        return { ...base, start: { ...base.start, scratch: { ...sizes, layerNormPlacement: 'pre' } } };
      };
      const ranks = await runProcesses<number[]>({
        worldSize,
        module: new URL('./ranks/measure-fine-tuning.ts', import.meta.url),
        argument: [
          makeConfiguration('kept', {}),
          ...Object.entries(ways).map(([way, recompute]) => makeConfiguration(way, recompute)),
        ],
      });

      const pretrainedWith = async (recompute: Recompute): Promise<number[]> => {
        const options = mergeOptions(pretraining, optionsOfFlags({ ...parallel, ...recompute }));
        const configuration = configure(options, { worldSize });
        return (await dryRun(configuration)).ranks.map(({ peakBytes }) => peakBytes);
      };
      const kept = await pretrainedWith({});
      for (const [index, [way, recompute]] of Object.entries(ways).entries()) {
        const predicted = await pretrainedWith(recompute);
        ranks.forEach((peaks, rank) => {
          const saved = peaks[0]! - peaks[index + 1]!;
          // layers are the same as in pretraining; heads differ, but are small, and the sizes of memory
          // blocks are rounded up
          const ratio = saved / (kept[rank]! - predicted[rank]!);
          expect(Math.abs(ratio - 1), `${way}, rank ${rank}: ${ratio}`).toBeLessThan(0.1);
        });
        const [whole, again] = ['kept', way].map((each) =>
          readSteps(locateMetrics(each)).map(({ lm_loss, grad_norm }) => ({ lm_loss, grad_norm })),
        );
        expect(whole).toHaveLength(2);
        expect(again).toEqual(whole);
      }
    },
    processTestMs,
  );
});
