import type { RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { processTestMs } from './support/run-processes.js';
import {
  listNumbers,
  printedTwice,
  TrainingRuns,
  tolerances,
  validationDifference,
} from './support/training-runs.js';

const deep: RunOptions = { model: { numLayers: 4 } };
const rotary: RunOptions = {
  model: { positionEmbeddingType: 'rope', rotaryInterleaved: true, layerNormPlacement: 'post' },
  optimizer: { optimizer: 'muon', maxLearningRate: 5e-3 },
};

let runs: TrainingRuns;
/** Output of the single-process run. */
let alone: string;
beforeAll(async () => {
  // evaluations of several micro-batches
  const each: RunOptions = { training: { trainIterations: 10, evalInterval: 5, evalIterations: 2 } };
  runs = await TrainingRuns.create(each, 'bert');
  const results = await runs.run(1, [
    { name: 'alone' },
    { name: 'alone-post', options: { model: { layerNormPlacement: 'post' } } },
    { name: 'alone-masks', options: { model: { bertNoBinaryHead: true } } },
    { name: 'alone-rotary', options: rotary },
    { name: 'alone-bf16', options: { training: { bf16: true } } },
    { name: 'alone-deep', options: deep },
    { name: 'alone-odd', options: { data: { sequenceLength: 31 } } },
  ]);
  alone = results[0]![0]!.output;
}, processTestMs);
afterAll(() => runs.remove());

const tensor: RunOptions = { layout: { tensorModelParallelSize: 2 } };
const stages: RunOptions = { layout: { pipelineModelParallelSize: 2 } };
const distributed: RunOptions = {
  layout: { useDistributedOptimizer: true, overlapGradReduce: true, overlapParamGather: true },
};

function expectSame(name: string, expected = 'alone', precision: 'fp32' | 'bf16' = 'fp32'): void {
  const difference = runs.differences(name, expected);
  expect(difference.loss, `loss of ${name}`).toBeLessThan(tolerances[precision].loss);
  expect(difference.norm, `norm of ${name}`).toBeLessThan(tolerances[precision].norm);
  const bound = tolerances[precision].loss;
  runs.readMetrics(name).forEach((line, step) => {
    const reference = runs.readMetrics(expected)[step]!;
    for (const kind of ['sop_loss', 'total_loss'] as const) {
      if (reference[kind] === undefined) continue;
      expect(Math.abs(line[kind]! / reference[kind] - 1), `${kind} of ${name}`).toBeLessThan(bound);
    }
  });
}

describe('a BERT on several ranks', () => {
  it('learns, and tells its losses apart', () => {
    const [first, last] = [runs.readMetrics('alone')[0]!, runs.readMetrics('alone').at(-1)!];
    // the loss of an untrained model is the logarithm of its vocabulary size, and log 2 for sentence order
    expect(Math.abs(first.lm_loss - Math.log(100))).toBeLessThan(0.4);
    expect(Math.abs(first.sop_loss! - Math.log(2))).toBeLessThan(0.1);
    expect(last.lm_loss).toBeLessThan(first.lm_loss - 0.5);
    for (const { lm_loss, sop_loss, total_loss } of runs.readMetrics('alone'))
      expect(total_loss).toBe(lm_loss + sop_loss!);
    const [masksAlone] = runs.readMetrics('alone-masks');
    for (const key of ['sop_loss', 'total_loss']) expect(masksAlone).not.toHaveProperty(key);
  });

  it.each([
    { what: 'tensor 2', size: 2, options: tensor },
    {
      what: 'tensor 2 with sequence parallelism',
      size: 2,
      options: mergeOptions(tensor, { layout: { sequenceParallel: true } }),
    },
    { what: 'data 2', size: 2, options: {} },
    { what: 'data 2, distributed optimizer', size: 2, options: distributed },
    { what: 'pipeline 2', size: 2, options: stages },
    {
      what: 'pipeline 2, zb-h1',
      size: 2,
      options: mergeOptions(stages, { layout: { pipelineSchedule: 'zb-h1' } }),
    },
  ])('trains as in one process: $what', async ({ what, size, options }) => {
    const [results] = await runs.run(size, [{ name: what, options }]);
    expectSame(what);
    expect(validationDifference(results![0]!.output, alone)).toBeLessThan(
      tolerances.fp32.loss + printedTwice,
    );
    for (const { output } of results!.slice(1)) expect(output).toBe('');
  });

  // stages in the middle know only the lengths of their samples
  it.each([
    { name: 'deep-1f1b', size: 4, options: {} },
    { name: 'deep-zb-h1', size: 4, options: { layout: { pipelineSchedule: 'zb-h1' } } },
    { name: 'deep-sequence', size: 8, options: mergeOptions(tensor, { layout: { sequenceParallel: true } }) },
  ])('trains as in one process with stages that read no data: $name', async ({ name, size, options }) => {
    await runs.run(size, [
      { name, options: mergeOptions(deep, { layout: { pipelineModelParallelSize: 4 } }, options) },
    ]);
    expectSame(name, 'alone-deep');
  });

  it('a micro-batch may be of any size', async () => {
    await runs.run(2, [{ name: 'larger', options: { training: { microBatchSize: 4 } } }]);
    expectSame('larger');
  });

  it.each([
    { name: 'post', options: { model: { layerNormPlacement: 'post' } } },
    { name: 'masks', options: { model: { bertNoBinaryHead: true } } },
    { name: 'rotary', options: rotary },
    { name: 'bf16', options: { training: { bf16: true } } },
    // not divisible by the number of ranks that share the sequence
    { name: 'odd', options: { data: { sequenceLength: 31 } } },
  ] as const)('trains as in one process: $name', async ({ name, options }) => {
    const parallel = mergeOptions(tensor, { layout: { sequenceParallel: true } }, distributed);
    await runs.run(4, [{ name, options: mergeOptions(options, parallel) }]);
    expectSame(name, `alone-${name}`, name === 'bf16' ? 'bf16' : 'fp32');
  });

  it(
    'computes the same bits again, in processes that share memory as on in-memory ranks',
    async () => {
      const options = mergeOptions(tensor, { layout: { sequenceParallel: true } });
      await runs.run(2, [{ name: 'memory', options }]);
      await runs.runInProcesses(2, [{ name: 'processes', options }]);
      expectSame('processes');
      expect(listNumbers(runs.readMetrics('processes'))).toEqual(listNumbers(runs.readMetrics('memory')));
    },
    processTestMs,
  );

  it('trains as in one process with rotary positions in two stages', async () => {
    await runs.run(2, [{ name: 'rotary-stages', options: mergeOptions(rotary, stages) }]);
    expectSame('rotary-stages', 'alone-rotary');
    // rotary positions have an effect: the losses differ from a model without them
    expect(runs.differences('rotary-stages', 'alone-post').loss).toBeGreaterThan(1e-3);
  });

  it('goes on in another layout', async () => {
    const load: RunOptions = { checkpoint: { load: runs.locate('moved') } };
    await runs.run(2, [{ name: 'moved', options: mergeOptions(tensor, { training: { exitInterval: 4 } }) }]);
    await runs.run(2, [
      { name: 'moved', options: mergeOptions(stages, load, { training: { exitInterval: 7 } }) },
    ]);
    await runs.run(1, [{ name: 'moved', options: load }]);
    expectSame('moved');
  });
});
