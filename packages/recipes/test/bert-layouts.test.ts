import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { processTestMs } from './support/run-processes.js';
import {
  numbersOf,
  printedTwice,
  TrainingRuns,
  tolerances,
  validationDifference,
} from './support/training-runs.js';

const deep = ['--num-layers', '4'];
const rotary = [
  ...['--position-embedding-type', 'rope', '--rotary-interleaved', '--layer-norm-placement', 'post'],
  ...['--optimizer', 'muon', '--lr', '5e-3'],
];

let runs: TrainingRuns;
/** What one process wrote. */
let alone: string;
beforeAll(async () => {
  // evaluations of several micro-batches
  const each = ['--train-iters', '10', '--eval-interval', '5', '--eval-iters', '2'];
  runs = await TrainingRuns.create(each, 'bert');
  const results = await runs.run(1, [
    { name: 'alone' },
    { name: 'alone-post', flags: ['--layer-norm-placement', 'post'] },
    { name: 'alone-masks', flags: ['--bert-no-binary-head'] },
    { name: 'alone-rotary', flags: rotary },
    { name: 'alone-bf16', flags: ['--bf16'] },
    { name: 'alone-deep', flags: deep },
    { name: 'alone-odd', flags: ['--seq-length', '31'] },
  ]);
  alone = results[0]![0]!.output;
}, processTestMs);
afterAll(() => runs.remove());

const tensor = ['--tensor-model-parallel-size', '2'];
const stages = ['--pipeline-model-parallel-size', '2'];
const distributed = ['--use-distributed-optimizer', '--overlap-grad-reduce', '--overlap-param-gather'];

function expectSame(name: string, expected = 'alone', precision: 'fp32' | 'bf16' = 'fp32'): void {
  const difference = runs.differences(name, expected);
  expect(difference.loss, `loss of ${name}`).toBeLessThan(tolerances[precision].loss);
  expect(difference.norm, `norm of ${name}`).toBeLessThan(tolerances[precision].norm);
  const bound = tolerances[precision].loss;
  runs.metricsOf(name).forEach((line, step) => {
    const reference = runs.metricsOf(expected)[step]!;
    for (const kind of ['sop_loss', 'total_loss'] as const) {
      if (reference[kind] === undefined) continue;
      expect(Math.abs(line[kind]! / reference[kind] - 1), `${kind} of ${name}`).toBeLessThan(bound);
    }
  });
}

describe('a BERT on several ranks', () => {
  it('learns, and tells its losses apart', () => {
    const [first, last] = [runs.metricsOf('alone')[0]!, runs.metricsOf('alone').at(-1)!];
    // a model that knows nothing has the logarithm of its vocabulary, and of two
    expect(Math.abs(first.lm_loss - Math.log(100))).toBeLessThan(0.4);
    expect(Math.abs(first.sop_loss! - Math.log(2))).toBeLessThan(0.1);
    expect(last.lm_loss).toBeLessThan(first.lm_loss - 0.5);
    for (const { lm_loss, sop_loss, total_loss } of runs.metricsOf('alone'))
      expect(total_loss).toBe(lm_loss + sop_loss!);
    const [masksAlone] = runs.metricsOf('alone-masks');
    for (const key of ['sop_loss', 'total_loss']) expect(masksAlone).not.toHaveProperty(key);
  });

  it.each([
    { what: 'tensor 2', size: 2, flags: tensor },
    { what: 'tensor 2 with sequence parallelism', size: 2, flags: [...tensor, '--sequence-parallel'] },
    { what: 'data 2', size: 2, flags: [] },
    { what: 'data 2, distributed optimizer', size: 2, flags: distributed },
    { what: 'pipeline 2', size: 2, flags: stages },
    { what: 'pipeline 2, zb-h1', size: 2, flags: [...stages, '--pipeline-schedule', 'zb-h1'] },
  ])('trains as in one process: $what', async ({ what, size, flags }) => {
    const [results] = await runs.run(size, [{ name: what, flags }]);
    expectSame(what);
    expect(validationDifference(results![0]!.output, alone)).toBeLessThan(
      tolerances.fp32.loss + printedTwice,
    );
    for (const { output } of results!.slice(1)) expect(output).toBe('');
  });

  // stages between the ends know of their samples only how long they are
  it.each([
    { name: 'deep-1f1b', size: 4, flags: [] },
    { name: 'deep-zb-h1', size: 4, flags: ['--pipeline-schedule', 'zb-h1'] },
    { name: 'deep-sequence', size: 8, flags: [...tensor, '--sequence-parallel'] },
  ])('trains as in one process with stages that read no data: $name', async ({ name, size, flags }) => {
    await runs.run(size, [{ name, flags: [...deep, '--pipeline-model-parallel-size', '4', ...flags] }]);
    expectSame(name, 'alone-deep');
  });

  it('a micro-batch may be of any size', async () => {
    await runs.run(2, [{ name: 'larger', flags: ['--micro-batch-size', '4'] }]);
    expectSame('larger');
  });

  it.each([
    { name: 'post', flags: ['--layer-norm-placement', 'post'] },
    { name: 'masks', flags: ['--bert-no-binary-head'] },
    { name: 'rotary', flags: rotary },
    { name: 'bf16', flags: ['--bf16'] },
    // which the ranks that cut the sequence do not divide
    { name: 'odd', flags: ['--seq-length', '31'] },
  ] as const)('trains as in one process: $name', async ({ name, flags }) => {
    const parallel = [...tensor, '--sequence-parallel', ...distributed];
    await runs.run(4, [{ name, flags: [...flags, ...parallel] }]);
    expectSame(name, `alone-${name}`, name === 'bf16' ? 'bf16' : 'fp32');
  });

  it(
    'computes the same bits again, in processes that share memory as on in-memory ranks',
    async () => {
      const flags = [...tensor, '--sequence-parallel'];
      await runs.run(2, [{ name: 'memory', flags }]);
      await runs.runInProcesses(2, [{ name: 'processes', flags }]);
      expectSame('processes');
      expect(numbersOf(runs.metricsOf('processes'))).toEqual(numbersOf(runs.metricsOf('memory')));
    },
    processTestMs,
  );

  it('trains as in one process with rotary positions in two stages', async () => {
    await runs.run(2, [{ name: 'rotary-stages', flags: [...rotary, ...stages] }]);
    expectSame('rotary-stages', 'alone-rotary');
    // and they are another model's
    expect(runs.differences('rotary-stages', 'alone-post').loss).toBeGreaterThan(1e-3);
  });

  it('goes on in another layout', async () => {
    const load = ['--load', runs.pathOf('moved')];
    await runs.run(2, [{ name: 'moved', flags: [...tensor, '--exit-interval', '4'] }]);
    await runs.run(2, [{ name: 'moved', flags: [...stages, ...load, '--exit-interval', '7'] }]);
    await runs.run(1, [{ name: 'moved', flags: load }]);
    expectSame('moved');
  });
});
