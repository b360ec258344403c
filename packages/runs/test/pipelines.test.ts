import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Checkpoint, dtypeBytes, hostTensor, loadCheckpoint } from '@mtl/checkpoint';
import type { RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { countElements } from '@mtl/kernels';
import { formatScheduleCsv, oneForwardOneBackward } from '@mtl/pipeline/schedules';
import { readRun } from '@mtl/run-records';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TrainGptResult } from './ranks/train-gpt.js';
import {
  listNumbers,
  printedTwice,
  TrainingRuns,
  tolerances,
  validationDifference,
} from './support/training-runs.js';

let runs: TrainingRuns;
let alone: TrainGptResult;
beforeAll(async () => {
  // a shorter curve than in tests of other layouts, since there are many schedules; evaluations have several
  // micro-batches
  const each: RunOptions = {
    model: { numLayers: 4 },
    training: { trainIterations: 10, evalInterval: 5, evalIterations: 2 },
  };
  runs = await TrainingRuns.create(each);
  const results = await runs.run(1, [
    { name: 'alone' },
    { name: 'alone-bf16', options: { training: { bf16: true } } },
  ]);
  alone = results[0]![0]!;
});
afterAll(() => runs.remove());

const stages = (p: number): RunOptions => ({ layout: { pipelineModelParallelSize: p } });
const chunks = (v: number): RunOptions => ({ layout: { numVirtualStagesPerPipelineRank: v } });
const schedule = (name: string): RunOptions => ({ layout: { pipelineSchedule: name } });
const tensor = (t: number): RunOptions => ({ layout: { tensorModelParallelSize: t } });
const distributed: RunOptions = {
  layout: { useDistributedOptimizer: true, overlapGradReduce: true, overlapParamGather: true },
};
const recompute: RunOptions = {
  training: { recomputeGranularity: 'full', recomputeMethod: 'uniform', recomputeNumLayers: 1 },
};
const selective: RunOptions = { training: { recomputeGranularity: 'selective' } };

function expectSame(name: string, expected = 'alone', precision: 'fp32' | 'bf16' = 'fp32'): void {
  const difference = runs.differences(name, expected);
  expect(difference.loss, `loss of ${name}`).toBeLessThan(tolerances[precision].loss);
  expect(difference.norm, `norm of ${name}`).toBeLessThan(tolerances[precision].norm);
}

/** Expects the same validation losses and the same continuation of a prompt on all ranks. */
function expectSameOutcome(results: readonly TrainGptResult[]): void {
  const [first, ...others] = results;
  expect(validationDifference(first!.output, alone.output)).toBeLessThan(tolerances.fp32.loss + printedTwice);
  expect(first!.sample).toMatch(/^A sample:\n.*(Line|says|ends)/);
  // both samples use the same random numbers, and probabilities that differ only by rounding
  expect(first!.sample).toBe(alone.sample);
  for (const { output, sample } of others) {
    expect(output).toBe('');
    expect(sample).toBe(first!.sample);
  }
}

describe('a GPT in a pipeline', () => {
  it.each([
    { p: 2, options: schedule('1f1b') },
    { p: 2, options: schedule('gpipe') },
    { p: 2, options: mergeOptions(schedule('interleaved'), chunks(2)) },
    { p: 2, options: mergeOptions(schedule('breadth-first'), chunks(2)) },
    { p: 2, options: schedule('zb-h1') },
    { p: 2, options: schedule('zb-h2') },
    { p: 2, options: schedule('zb-v') },
    { p: 4, options: schedule('1f1b') },
    { p: 4, options: schedule('zb-h2') },
    { p: 2, options: mergeOptions(recompute, schedule('zb-v')) },
    { p: 2, options: mergeOptions(selective, schedule('zb-h1')) },
  ])('trains as in one process: $p stages $options', async ({ p, options }) => {
    const name = `${p} ${JSON.stringify(options)}`;
    const [results] = await runs.run(p, [{ name, options: mergeOptions(stages(p), options) }]);
    expectSame(name);
    expectSameOutcome(results!);
  });

  it.each([
    { what: 'with a head of its own', options: { model: { untieEmbeddingsAndOutputWeights: true } } },
    // middle stages read data if attention stops at the ends of documents
    {
      what: 'with attention within documents',
      options: { data: { resetAttentionMask: true, resetPositionIds: true } },
    },
    {
      what: 'with a growing batch',
      options: {
        training: { rampupBatchSize: [4, 2, 12], trainSamples: 60, trainIterations: undefined },
        optimizer: { learningRateDecaySamples: 60, learningRateDecayIterations: undefined },
      },
    },
  ])('trains as in one process $what', async ({ what, options }) => {
    await runs.run(1, [{ name: `${what}-alone`, options }]);
    await runs.run(4, [{ name: what, options: mergeOptions(options, stages(4)) }]);
    expectSame(what, `${what}-alone`);
  });

  it.each([
    // meshes of eight processes and of two axes with other schedules are compared by `npm run dev -- parity`
    { t: 2, p: 2, d: 1, options: mergeOptions({ layout: { sequenceParallel: true } }, schedule('zb-v')) },
    { t: 1, p: 2, d: 2, options: mergeOptions(distributed, schedule('interleaved'), chunks(2)) },
    { t: 1, p: 2, d: 2, options: mergeOptions({ layout: { overlapGradReduce: true } }, schedule('zb-v')) },
    {
      t: 2,
      p: 2,
      d: 1,
      options: mergeOptions(
        { layout: { sequenceParallel: true } },
        selective,
        schedule('interleaved'),
        chunks(2),
      ),
    },
  ])('trains as in one process: tensor $t x pipeline $p x data $d $options', async ({ t, p, d, options }) => {
    const name = `${t}${p}${d} ${JSON.stringify(options)}`;
    await runs.run(t * p * d, [{ name, options: mergeOptions(tensor(t), stages(p), options) }]);
    expectSame(name);
  });

  it('trains as in one process in bfloat16', async () => {
    const options = mergeOptions({ training: { bf16: true } }, stages(2), distributed, schedule('zb-h1'));
    await runs.run(4, [{ name: 'bf16', options }]);
    expectSame('bf16', 'alone-bf16', 'bf16');
  });

  it('trains by a schedule from a file, with the model turned round', async () => {
    const path = runs.locate('turned.csv');
    const lines = formatScheduleCsv(oneForwardOneBackward({ numStages: 2, numMicroBatches: 8 }))
      .trim()
      .split('\n');
    // the first layers on the last rank
    writeFileSync(path, lines.toReversed().join('\n'));
    await runs.run(2, [{ name: 'turned', options: mergeOptions(stages(2), schedule(path)) }]);
    expectSame('turned');
  });

  it('trains by a schedule function of the user, whatever the number of micro-batches', async () => {
    const path = runs.locate('own.mjs');
    // splits backward in halves, with the second halves at the end, and puts the first layers on the last
    // rank
    writeFileSync(
      path,
      `export default ({ numStages, numMicroBatches }) => {
        const all = (kind, chunk) =>
          Array.from({ length: numMicroBatches }, (_, microBatch) => ({ kind, chunk, microBatch }));
        const placement = Array.from({ length: numStages }, (_, chunk) => numStages - 1 - chunk);
        const actions = placement.map((chunk) => ['F', 'I', 'W'].flatMap((kind) => all(kind, chunk)));
        return { numMicroBatches, placement, actions };
      };`,
    );
    const options: RunOptions = {
      training: { rampupBatchSize: [4, 2, 12], trainSamples: 60, trainIterations: undefined },
      optimizer: { learningRateDecaySamples: 60, learningRateDecayIterations: undefined },
    };
    await runs.run(1, [{ name: 'own-alone', options }]);
    await runs.run(2, [{ name: 'own', options: mergeOptions(options, stages(2), schedule(path)) }]);
    expectSame('own', 'own-alone');
  });

  it('reads data in the first and the last stage alone', async () => {
    // every token is outside the vocabulary, so that reading a sample fails
    const [prefix, unreadable] = ['corpus_text_document', 'unreadable'].map((name) => runs.locate(name));
    copyFileSync(`${prefix}.idx`, `${unreadable}.idx`);
    writeFileSync(`${unreadable}.bin`, new Uint8Array(readFileSync(`${prefix}.bin`).length).fill(0xff));
    const withoutData = (...ranks: number[]) =>
      Object.fromEntries(ranks.map((rank) => [rank, { data: { dataPath: [unreadable!] } }]));
    const options = stages(4);
    await runs.run(4, [{ name: 'read by ends', options, optionsOfRank: withoutData(1, 2) }]);
    expectSame('read by ends');
    // the first stage has the last chunk, too
    const turned = mergeOptions(stages(2), schedule('zb-v'));
    await runs.run(2, [{ name: 'read by one', options: turned, optionsOfRank: withoutData(1) }]);
    expectSame('read by one');
    const last = runs.run(4, [{ name: 'unread', options, optionsOfRank: withoutData(3) }]);
    await expect(last).rejects.toThrow('65535');
  });

  it('trains with layers split unevenly', async () => {
    const split = (layout: string) =>
      mergeOptions(stages(2), { layout: { pipelineModelParallelLayout: layout } });
    await runs.run(2, [
      { name: 'uneven', options: split('Ettt|tL') },
      { name: 'balanced', options: split('balanced') },
    ]);
    expectSame('uneven');
    expectSame('balanced');
  });

  it('computes the same bits again, in processes that share memory as on in-memory ranks', async () => {
    const options = mergeOptions(stages(2), schedule('interleaved'), chunks(2));
    await runs.run(2, [{ name: 'memory', options }]);
    await runs.runInProcesses(2, [{ name: 'processes', options }]);
    expectSame('processes');
    expect(listNumbers(runs.readMetrics('processes'))).toEqual(listNumbers(runs.readMetrics('memory')));
  });
});

/** Returns the bytes of all tensors of a checkpoint, weights and optimizer state, each as a whole tensor. */
async function readTensors(path: string): Promise<Map<string, Uint8Array>> {
  const checkpoint = await Checkpoint.open(path);
  const values = new Map<string, Uint8Array>();
  const tensors = [...checkpoint.tensors.values()].map(({ name, dtype, globalShape }) => {
    const memory = new Uint8Array(countElements(globalShape) * dtypeBytes[dtype]);
    values.set(name, memory);
    return hostTensor({ name, dtype, globalShape, memory });
  });
  await loadCheckpoint({ checkpoint, tensors });
  return values;
}

describe('checkpoints of pipelines', () => {
  const iteration = 'iter_0000005';
  const here: RunOptions = { training: { exitInterval: 5 } };

  it('hold weights and optimizer state to the bit in every layout, each tensor once', async () => {
    const layouts = [
      { name: 'a', size: 4, options: mergeOptions(stages(2), schedule('zb-v'), distributed) },
      {
        name: 'b',
        size: 4,
        options: mergeOptions(stages(2), tensor(2), chunks(2), { layout: { sequenceParallel: true } }),
      },
      { name: 'c', size: 4, options: stages(4) },
      {
        name: 'd',
        size: 4,
        options: mergeOptions(
          stages(2),
          { layout: { pipelineModelParallelLayout: 'balanced' } },
          distributed,
        ),
      },
      { name: 'e', size: 1, options: {} },
    ];
    await runs.run(4, [{ name: 'a', options: mergeOptions(layouts[0]!.options, here) }]);
    const expected = await readTensors(join(runs.locate('a'), iteration));
    expect(expected.size).toBeGreaterThan(3 * 4 * 12);
    for (const [index, { name, size, options }] of layouts.slice(1).entries()) {
      const load: RunOptions = {
        checkpoint: { load: runs.locate(layouts[index]!.name) },
        training: { trainIterations: 5 },
      };
      // uses the thread number of the checkpoint's training if no flag sets it
      const threads = index === 0 ? { layout: { threads: undefined } } : {};
      const [ranks] = await runs.run(size, [{ name, options: mergeOptions(options, load, threads) }]);
      expect(ranks![0]!.output).toContain(index === 0 ? 'threads 1: as the checkpoint' : 'as --threads says');
      expect(await readTensors(join(runs.locate(name), iteration)), name).toEqual(expected);
      // one rank writes the record of the run
      const { starts } = (await readRun(runs.locate(name))).record!;
      expect(starts).toMatchObject([{ iteration: 5, layout: { worldSize: size }, end: { reason: 'done' } }]);
    }
  });

  it('continue a training run with other stages and chunks', async () => {
    const load: RunOptions = { checkpoint: { load: runs.locate('moved') } };
    const move = async (size: number, options: RunOptions): Promise<void> => {
      await runs.run(size, [{ name: 'moved', options }]);
    };
    await move(4, mergeOptions(stages(4), { training: { exitInterval: 3 } }));
    await move(4, mergeOptions(stages(2), chunks(2), distributed, load, { training: { exitInterval: 6 } }));
    await move(2, mergeOptions(stages(2), schedule('zb-v'), load, { training: { exitInterval: 8 } }));
    await move(1, load);
    expectSame('moved');
  });

  it('are written for and read from Hugging Face', async () => {
    const huggingFace = runs.locate('hugging-face');
    await runs.run(2, [
      {
        name: 'to-hf',
        options: mergeOptions(stages(2), here, { checkpoint: { saveHuggingFace: huggingFace } }),
      },
    ]);
    const starting: RunOptions = {
      checkpoint: { loadHuggingFace: huggingFace },
      training: { trainIterations: 2 },
    };
    await runs.run(1, [{ name: 'from-hf-alone', options: starting }]);
    await runs.run(4, [{ name: 'from-hf', options: mergeOptions(starting, stages(2), distributed) }]);
    expectSame('from-hf', 'from-hf-alone');
    // continues from the learned weights
    expect(runs.readMetrics('from-hf')[0]!.lm_loss).toBeLessThan(runs.readMetrics('alone')[4]!.lm_loss);
  });

  it('are written for and read from Hugging Face where layers are sharded as well', async () => {
    const sharded = mergeOptions(stages(2), tensor(2), { layout: { sequenceParallel: true } });
    // these are the same weights, written by one process and by the ranks of a pipeline of sharded layers
    const [fromOne, fromMany] = [runs.locate('hf-of-one'), runs.locate('hf-of-many')];
    // nothing is left to train: the loaded state is saved again
    const write: RunOptions = {
      checkpoint: { load: runs.locate('for-hf') },
      training: { trainIterations: 5 },
    };
    const starting: RunOptions = {
      checkpoint: { loadHuggingFace: fromMany },
      training: { trainIterations: 2 },
    };
    await runs.run(4, [
      { name: 'for-hf', options: mergeOptions(sharded, schedule('zb-v'), here) },
      {
        name: 'hf-sharded',
        options: mergeOptions(write, { checkpoint: { saveHuggingFace: fromMany } }, sharded),
      },
      { name: 'from-sharded', options: mergeOptions(starting, sharded, chunks(2)) },
      { name: 'from-sharded-v', options: mergeOptions(starting, sharded, schedule('zb-v')) },
    ]);
    await runs.run(1, [
      { name: 'hf-alone', options: mergeOptions(write, { checkpoint: { saveHuggingFace: fromOne } }) },
      { name: 'from-sharded-alone', options: starting },
    ]);
    const weights = (directory: string) => readFileSync(join(directory, 'model.safetensors'));
    expect(weights(fromMany).equals(weights(fromOne))).toBe(true);
    expectSame('from-sharded', 'from-sharded-alone');
    expectSame('from-sharded-v', 'from-sharded-alone');
  });
});
