import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Checkpoint, dtypeBytes, hostTensor, loadCheckpoint } from '@mtl/checkpoint';
import { sizeOf } from '@mtl/kernels';
import { formatScheduleCsv, oneForwardOneBackward } from '@mtl/pipeline/schedules';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readRun } from '../src/index.js';
import type { TrainGptResult } from './ranks/train-gpt.js';
import {
  numbersOf,
  printedTwice,
  TrainingRuns,
  tolerances,
  validationDifference,
} from './support/training-runs.js';

let runs: TrainingRuns;
let alone: TrainGptResult;
beforeAll(async () => {
  // a shorter curve than that of other layouts: there are many schedules; evaluations of several
  // micro-batches
  const each = ['--num-layers', '4', '--train-iters', '10', '--eval-interval', '5', '--eval-iters', '2'];
  runs = await TrainingRuns.create(each);
  const results = await runs.run(1, [{ name: 'alone' }, { name: 'alone-bf16', flags: ['--bf16'] }]);
  alone = results[0]![0]!;
});
afterAll(() => runs.remove());

const stages = (p: number): string[] => ['--pipeline-model-parallel-size', `${p}`];
const chunks = (v: number): string[] => ['--num-virtual-stages-per-pipeline-rank', `${v}`];
const schedule = (name: string): string[] => ['--pipeline-schedule', name];
const tensor = (t: number): string[] => ['--tensor-model-parallel-size', `${t}`];
const distributed = ['--use-distributed-optimizer', '--overlap-grad-reduce', '--overlap-param-gather'];
const recompute = [
  ...['--recompute-granularity', 'full', '--recompute-method', 'uniform'],
  ...['--recompute-num-layers', '1'],
];
const selective = ['--recompute-granularity', 'selective'];

function expectSame(name: string, expected = 'alone', precision: 'fp32' | 'bf16' = 'fp32'): void {
  const difference = runs.differences(name, expected);
  expect(difference.loss, `loss of ${name}`).toBeLessThan(tolerances[precision].loss);
  expect(difference.norm, `norm of ${name}`).toBeLessThan(tolerances[precision].norm);
}

/** Validation losses and the text that the model makes of a prompt. */
function expectSameOutcome(results: readonly TrainGptResult[]): void {
  const [first, ...others] = results;
  expect(validationDifference(first!.output, alone.output)).toBeLessThan(tolerances.fp32.loss + printedTwice);
  expect(first!.sample).toMatch(/^A sample:\n.*(Line|says|ends)/);
  // drawn by the same random numbers from probabilities that differ by rounding alone
  expect(first!.sample).toBe(alone.sample);
  for (const { output, sample } of others) {
    expect(output).toBe('');
    expect(sample).toBe(first!.sample);
  }
}

describe('a GPT in a pipeline', () => {
  it.each([
    { p: 2, flags: schedule('1f1b') },
    { p: 2, flags: schedule('gpipe') },
    { p: 2, flags: [...schedule('interleaved'), ...chunks(2)] },
    { p: 2, flags: [...schedule('breadth-first'), ...chunks(2)] },
    { p: 2, flags: schedule('zb-h1') },
    { p: 2, flags: schedule('zb-h2') },
    { p: 2, flags: schedule('zb-v') },
    { p: 4, flags: schedule('1f1b') },
    { p: 4, flags: schedule('zb-h2') },
    { p: 2, flags: [...recompute, ...schedule('zb-v')] },
    { p: 2, flags: [...selective, ...schedule('zb-h1')] },
  ])('trains as in one process: $p stages $flags', async ({ p, flags }) => {
    const name = `${p}${flags.join('')}`;
    const [results] = await runs.run(p, [{ name, flags: [...stages(p), ...flags] }]);
    expectSame(name);
    expectSameOutcome(results!);
  });

  it.each([
    { what: 'with a head of its own', flags: ['--untie-embeddings-and-output-weights'] },
    // stages between the ends read data for where documents end
    { what: 'with attention within documents', flags: ['--reset-attention-mask', '--reset-position-ids'] },
    {
      what: 'with a growing batch',
      flags: ['--rampup-batch-size', '4', '2', '12', '--train-samples', '60', '--lr-decay-samples', '60'],
      leftOut: ['--train-iters', '--lr-decay-iters'],
    },
  ])('trains as in one process $what', async ({ what, flags, leftOut = [] }) => {
    await runs.run(1, [{ name: `${what}-alone`, flags, leftOut }]);
    await runs.run(4, [{ name: what, flags: [...flags, ...stages(4)], leftOut }]);
    expectSame(what, `${what}-alone`);
  });

  it.each([
    // meshes of eight processes and of two axes with other schedules are compared by `npm run parity`
    { t: 2, p: 2, d: 1, flags: ['--sequence-parallel', ...schedule('zb-v')] },
    { t: 1, p: 2, d: 2, flags: [...distributed, ...schedule('interleaved'), ...chunks(2)] },
    { t: 1, p: 2, d: 2, flags: ['--overlap-grad-reduce', ...schedule('zb-v')] },
    {
      t: 2,
      p: 2,
      d: 1,
      flags: ['--sequence-parallel', ...selective, ...schedule('interleaved'), ...chunks(2)],
    },
  ])('trains as in one process: tensor $t x pipeline $p x data $d $flags', async ({ t, p, d, flags }) => {
    const name = `${t}${p}${d}${flags.join('')}`;
    await runs.run(t * p * d, [{ name, flags: [...tensor(t), ...stages(p), ...flags] }]);
    expectSame(name);
  });

  it('trains as in one process in bfloat16', async () => {
    const flags = ['--bf16', ...stages(2), ...distributed, ...schedule('zb-h1')];
    await runs.run(4, [{ name: 'bf16', flags }]);
    expectSame('bf16', 'alone-bf16', 'bf16');
  });

  it('trains by a schedule from a file, with the model turned round', async () => {
    const path = runs.pathOf('turned.csv');
    const lines = formatScheduleCsv(oneForwardOneBackward({ numStages: 2, numMicroBatches: 8 }))
      .trim()
      .split('\n');
    // the first layers on the last rank
    writeFileSync(path, lines.toReversed().join('\n'));
    await runs.run(2, [{ name: 'turned', flags: [...stages(2), ...schedule(path)] }]);
    expectSame('turned');
  });

  it('trains by a schedule function of the user, whatever the number of micro-batches', async () => {
    const path = runs.pathOf('own.mjs');
    // backward in halves, the second ones at the end; the first layers on the last rank
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
    const growing = ['--rampup-batch-size', '4', '2', '12', '--train-samples', '60'];
    const flags = [...growing, '--lr-decay-samples', '60'];
    const leftOut = ['--train-iters', '--lr-decay-iters'];
    await runs.run(1, [{ name: 'own-alone', flags, leftOut }]);
    await runs.run(2, [{ name: 'own', flags: [...flags, ...stages(2), ...schedule(path)], leftOut }]);
    expectSame('own', 'own-alone');
  });

  it('reads data in the first and the last stage alone', async () => {
    // every token is one that no vocabulary has: who reads a sample fails
    const [prefix, unreadable] = ['corpus_text_document', 'unreadable'].map((name) => runs.pathOf(name));
    copyFileSync(`${prefix}.idx`, `${unreadable}.idx`);
    writeFileSync(`${unreadable}.bin`, new Uint8Array(readFileSync(`${prefix}.bin`).length).fill(0xff));
    const withoutData = (...ranks: number[]) =>
      Object.fromEntries(ranks.map((rank) => [rank, ['--data-path', unreadable!]]));
    const flags = stages(4);
    await runs.run(4, [{ name: 'read by ends', flags, flagsOfRank: withoutData(1, 2) }]);
    expectSame('read by ends');
    // the first stage has the last piece, too
    const turned = [...stages(2), ...schedule('zb-v')];
    await runs.run(2, [{ name: 'read by one', flags: turned, flagsOfRank: withoutData(1) }]);
    expectSame('read by one');
    const last = runs.run(4, [{ name: 'unread', flags, flagsOfRank: withoutData(3) }]);
    await expect(last).rejects.toThrow('65535');
  });

  it('trains with layers split unevenly', async () => {
    const flags = (layout: string) => [...stages(2), '--pipeline-model-parallel-layout', layout];
    await runs.run(2, [
      { name: 'uneven', flags: flags('Ettt|tL') },
      { name: 'balanced', flags: flags('balanced') },
    ]);
    expectSame('uneven');
    expectSame('balanced');
  });

  it('computes the same bits again, in processes that share memory as on in-memory ranks', async () => {
    const flags = [...stages(2), ...schedule('interleaved'), ...chunks(2)];
    await runs.run(2, [{ name: 'memory', flags }]);
    await runs.runInProcesses(2, [{ name: 'processes', flags }]);
    expectSame('processes');
    expect(numbersOf(runs.metricsOf('processes'))).toEqual(numbersOf(runs.metricsOf('memory')));
  });
});

/** The bytes of all tensors of a checkpoint, weights and optimizer state, whole. */
async function tensorsOf(path: string): Promise<Map<string, Uint8Array>> {
  const checkpoint = await Checkpoint.open(path);
  const values = new Map<string, Uint8Array>();
  const tensors = [...checkpoint.tensors.values()].map(({ name, dtype, globalShape }) => {
    const memory = new Uint8Array(sizeOf(globalShape) * dtypeBytes[dtype]);
    values.set(name, memory);
    return hostTensor({ name, dtype, globalShape, memory });
  });
  await loadCheckpoint({ checkpoint, tensors });
  return values;
}

describe('checkpoints of pipelines', () => {
  const iteration = 'iter_0000005';
  const here = ['--exit-interval', '5'];

  it('hold weights and optimizer state to the bit in every layout, each tensor once', async () => {
    const layouts = [
      { name: 'a', size: 4, flags: [...stages(2), ...schedule('zb-v'), ...distributed] },
      { name: 'b', size: 4, flags: [...stages(2), ...tensor(2), ...chunks(2), '--sequence-parallel'] },
      { name: 'c', size: 4, flags: stages(4) },
      {
        name: 'd',
        size: 4,
        flags: [...stages(2), '--pipeline-model-parallel-layout', 'balanced', ...distributed],
      },
      { name: 'e', size: 1, flags: [] },
    ];
    await runs.run(4, [{ name: 'a', flags: [...layouts[0]!.flags, ...here] }]);
    const expected = await tensorsOf(join(runs.pathOf('a'), iteration));
    expect(expected.size).toBeGreaterThan(3 * 4 * 12);
    for (const [index, { name, size, flags }] of layouts.slice(1).entries()) {
      const load = ['--load', runs.pathOf(layouts[index]!.name), '--train-iters', '5'];
      // with as many threads as the checkpoint was trained with, where no flag names them
      const leftOut = index === 0 ? ['--threads'] : [];
      const [ranks] = await runs.run(size, [{ name, flags: [...flags, ...load], leftOut }]);
      expect(ranks![0]!.output).toContain(index === 0 ? 'threads 1: as the checkpoint' : 'as --threads says');
      expect(await tensorsOf(join(runs.pathOf(name), iteration)), name).toEqual(expected);
      // one rank writes the record of the run
      const { starts } = (await readRun(runs.pathOf(name))).record!;
      expect(starts).toMatchObject([{ iteration: 5, layout: { worldSize: size }, end: { reason: 'done' } }]);
    }
  });

  it('continue a training run with other stages and chunks', async () => {
    const load = ['--load', runs.pathOf('moved')];
    const move = async (size: number, flags: readonly string[]): Promise<void> => {
      await runs.run(size, [{ name: 'moved', flags }]);
    };
    await move(4, [...stages(4), '--exit-interval', '3']);
    await move(4, [...stages(2), ...chunks(2), ...distributed, ...load, '--exit-interval', '6']);
    await move(2, [...stages(2), ...schedule('zb-v'), ...load, '--exit-interval', '8']);
    await move(1, load);
    expectSame('moved');
  });

  it('are written for and read from Hugging Face', async () => {
    const huggingFace = runs.pathOf('hugging-face');
    await runs.run(2, [{ name: 'to-hf', flags: [...stages(2), ...here, '--save-hf', huggingFace] }]);
    const starting = ['--load-hf', huggingFace, '--train-iters', '2'];
    await runs.run(1, [{ name: 'from-hf-alone', flags: starting }]);
    await runs.run(4, [{ name: 'from-hf', flags: [...starting, ...stages(2), ...distributed] }]);
    expectSame('from-hf', 'from-hf-alone');
    // it goes on from what it has learnt
    expect(runs.metricsOf('from-hf')[0]!.lm_loss).toBeLessThan(runs.metricsOf('alone')[4]!.lm_loss);
  });

  it('are written for and read from Hugging Face where layers are sharded as well', async () => {
    const sharded = [...stages(2), ...tensor(2), '--sequence-parallel'];
    // the same weights, written by one process and by the ranks of a pipeline of sharded layers
    const [fromOne, fromMany] = [runs.pathOf('hf-of-one'), runs.pathOf('hf-of-many')];
    // nothing is left to train: what is saved is what was loaded
    const write = ['--load', runs.pathOf('for-hf'), '--train-iters', '5', '--save-hf'];
    const starting = ['--load-hf', fromMany, '--train-iters', '2'];
    await runs.run(4, [
      { name: 'for-hf', flags: [...sharded, ...schedule('zb-v'), ...here] },
      { name: 'hf-sharded', flags: [...write, fromMany, ...sharded] },
      { name: 'from-sharded', flags: [...starting, ...sharded, ...chunks(2)] },
      { name: 'from-sharded-v', flags: [...starting, ...sharded, ...schedule('zb-v')] },
    ]);
    await runs.run(1, [
      { name: 'hf-alone', flags: [...write, fromOne] },
      { name: 'from-sharded-alone', flags: starting },
    ]);
    const weights = (directory: string) => readFileSync(join(directory, 'model.safetensors'));
    expect(weights(fromMany).equals(weights(fromOne))).toBe(true);
    expectSame('from-sharded', 'from-sharded-alone');
    expectSame('from-sharded-v', 'from-sharded-alone');
  });
});
