import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  numbersOf,
  printedTwice,
  TrainingRuns,
  tolerances,
  validationDifference,
} from './support/training-runs.js';

let runs: TrainingRuns;
/** What one process wrote. */
const written = { alone: '', 'alone-bf16': '', 'alone-12': '' };
/**
 * A dozen steps: mistakes of a layout all show by then (parity.mjs), and its own processes train for longer.
 */
const dozen = ['--exit-interval', '12'];
beforeAll(async () => {
  runs = await TrainingRuns.create();
  const results = await runs.run(1, [
    { name: 'alone' },
    { name: 'alone-bf16', flags: ['--bf16'] },
    { name: 'alone-12', flags: dozen },
  ]);
  [written.alone, written['alone-bf16'], written['alone-12']] = results.map(([one]) => one!.output) as [
    string,
    string,
    string,
  ];
});
afterAll(() => runs.remove());

const samplesOf = (name: string): unknown[] =>
  readFileSync(join(runs.pathOf(name), 'samples.jsonl'), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));

const kinds = [
  { name: 'plain', flags: [] },
  { name: 'overlap', flags: ['--overlap-grad-reduce'] },
  { name: 'distributed', flags: ['--use-distributed-optimizer'] },
  {
    name: 'distributed-overlap',
    flags: ['--use-distributed-optimizer', '--overlap-grad-reduce', '--overlap-param-gather'],
  },
];

// `npm run parity` compares both numbers of ranks in both precisions with one process
describe('a GPT on data-parallel ranks', () => {
  it.each([
    { dp: 2, precision: 'fp32', alone: 'alone', flags: [] },
    { dp: 4, precision: 'bf16', alone: 'alone-bf16', flags: ['--bf16'] },
  ] as const)('trains as in one process: $dp ranks, $precision', async ({ dp, precision, alone, flags }) => {
    const reference = runs.metricsOf(alone);
    expect(reference[0]!.lm_loss - reference.at(-1)!.lm_loss).toBeGreaterThan(0.5);
    const trainings = kinds.map((kind) => ({
      name: `${kind.name}-${precision}-${dp}`,
      flags: [...flags, ...kind.flags],
    }));
    const results = await runs.run(dp, trainings);
    const first = runs.metricsOf(trainings[0]!.name);
    for (const { name } of trainings) {
      const difference = runs.differences(name, alone);
      expect(difference.loss).toBeLessThan(tolerances[precision].loss);
      expect(difference.norm).toBeLessThan(tolerances[precision].norm);
      // the same sums in the same order, whenever and wherever they are made
      expect(numbersOf(runs.metricsOf(name))).toEqual(numbersOf(first));
    }
    for (const [index, [first, ...others]] of results.entries()) {
      expect(validationDifference(first!.output, written[alone])).toBeLessThan(
        tolerances[precision].loss + printedTwice,
      );
      expect(first!.sample).toMatch(/^A sample:\n.*(Line|says|ends)/);
      expect(samplesOf(trainings[index]!.name)).toMatchObject([{ iteration: 24, text: first!.sample }]);
      for (const { output } of others) expect(output).toBe('');
    }
  });
});

describe('a GPT on a mesh of tensor- and data-parallel ranks', () => {
  // losses and norms of other meshes are compared by `npm run parity`; here evaluations are, too
  it('trains and evaluates as in one process', async () => {
    const [tp, dp] = [2, 2];
    const size = ['--tensor-model-parallel-size', `${tp}`];
    const all = [...size, '--sequence-parallel', ...kinds.at(-1)!.flags];
    const trainings = [
      { name: `tp-${tp}-${dp}`, flags: [...size, ...dozen] },
      { name: `tp-${tp}-${dp}-all`, flags: [...all, ...dozen] },
    ];
    const results = await runs.run(tp * dp, trainings);
    for (const { name } of trainings) {
      const difference = runs.differences(name, 'alone-12');
      expect(difference.loss).toBeLessThan(tolerances.fp32.loss);
      expect(difference.norm).toBeLessThan(tolerances.fp32.norm);
    }
    for (const [first] of results) {
      expect(validationDifference(first!.output, written['alone-12'])).toBeLessThan(
        tolerances.fp32.loss + printedTwice,
      );
    }
  });
});

describe('samples at evaluations', () => {
  it('change no bit of the run, and come from every layout', async () => {
    const pipeline = ['--tensor-model-parallel-size', '2', '--pipeline-model-parallel-size', '2'];
    const gathered = [...kinds.at(-1)!.flags, '--tensor-model-parallel-size', '2', '--sequence-parallel'];
    const short = ['--exit-interval', '6', '--eval-interval', '3'];
    const layouts = { pipeline, gathered };
    for (const [layout, flags] of Object.entries(layouts)) {
      const [name, without] = [`samples-${layout}`, `no-samples-${layout}`];
      await runs.run(4, [
        { name, flags: [...short, ...flags], leftOut: ['--no-eval-samples'] },
        { name: without, flags: [...short, ...flags] },
      ]);
      expect(numbersOf(runs.metricsOf(name))).toEqual(numbersOf(runs.metricsOf(without)));
      const validations = (of: string): unknown[] =>
        runs.recordsOf(of).flatMap(({ type, lm_loss }) => (type === 'validation' ? [lm_loss] : []));
      expect(validations(name)).toEqual(validations(without));
      expect(samplesOf(name)).toMatchObject(
        [3, 6].map((iteration) => ({
          iteration,
          label: 'A sample',
          text: expect.stringMatching(/^A sample:\n/),
          prompt: expect.stringMatching(/./),
          completion: expect.any(String),
        })),
      );
      expect(existsSync(join(runs.pathOf(without), 'samples.jsonl'))).toBe(false);
    }
  });
});

describe('a GPT in processes that share memory', () => {
  it('trains as on in-memory ranks', async () => {
    const processes = 4;
    const trainings = kinds.map((kind) => ({ name: `local-${kind.name}-${processes}`, flags: kind.flags }));
    await runs.runInProcesses(processes, trainings);
    const first = runs.metricsOf(trainings[0]!.name);
    for (const { name } of trainings) {
      const difference = runs.differences(name, 'alone');
      expect(difference.loss).toBeLessThan(tolerances.fp32.loss);
      expect(difference.norm).toBeLessThan(tolerances.fp32.norm);
      expect(numbersOf(runs.metricsOf(name))).toEqual(numbersOf(first));
    }
    // both engines add float32 in the order of the ranks
    await runs.run(processes, [{ name: `memory-${processes}` }]);
    expect(numbersOf(first)).toEqual(numbersOf(runs.metricsOf(`memory-${processes}`)));
  });
});

describe('checkpoints', () => {
  it('let a GPT go on in another layout, and are written for and read from Hugging Face in any', async () => {
    const [huggingFace, save] = [runs.pathOf('hugging-face'), runs.pathOf('moved')];
    const distributed = ['--use-distributed-optimizer', '--overlap-param-gather'];
    await runs.run(4, [{ name: 'moved', flags: [...distributed, '--exit-interval', '8'] }]);
    await runs.run(1, [{ name: 'moved', flags: ['--load', save, '--exit-interval', '12'] }]);
    await runs.run(2, [{ name: 'moved', flags: ['--load', save, ...distributed, '--save-hf', huggingFace] }]);
    const difference = runs.differences('moved', 'alone');
    expect(difference.loss).toBeLessThan(tolerances.fp32.loss);
    expect(difference.norm).toBeLessThan(tolerances.fp32.norm);
    const starting = ['--load-hf', huggingFace, '--train-iters', '2'];
    await runs.run(1, [{ name: 'from-hf-alone', flags: starting }]);
    await runs.run(2, [{ name: 'from-hf', flags: [...starting, ...distributed] }]);
    expect(runs.differences('from-hf', 'from-hf-alone').loss).toBeLessThan(tolerances.fp32.loss);
    // ln 257 is 5.55: it goes on from what it has learnt
    expect(runs.metricsOf('from-hf')[0]!.lm_loss).toBeLessThan(runs.metricsOf('alone')[2]!.lm_loss);
  });

  it('change tensor parallelism in the middle of a run', async () => {
    const load = ['--load', runs.pathOf('meshes')];
    const tensor = (size: number): string[] => ['--tensor-model-parallel-size', `${size}`];
    const distributed = [...tensor(2), '--use-distributed-optimizer', '--sequence-parallel'];
    await runs.run(4, [{ name: 'meshes', flags: [...distributed, '--exit-interval', '8'] }]);
    await runs.run(4, [{ name: 'meshes', flags: [...load, ...tensor(4), '--exit-interval', '16'] }]);
    await runs.run(1, [{ name: 'meshes', flags: [...load] }]);
    const difference = runs.differences('meshes', 'alone');
    expect(difference.loss).toBeLessThan(tolerances.fp32.loss);
    expect(difference.norm).toBeLessThan(tolerances.fp32.norm);
  });

  it('are continued by a training run that was started again', async () => {
    const interrupted = ['--save-interval', '5'];
    await runs.run(2, [{ name: 'restarted', flags: [...interrupted, '--exit-interval', '10'] }]);
    const [again] = await runs.run(2, [{ name: 'restarted', flags: interrupted, isRestart: true }]);
    expect(again![0]!.output).toContain('iteration 10');
    await runs.run(2, [{ name: 'undisturbed' }]);
    expect(numbersOf(runs.metricsOf('restarted'))).toEqual(numbersOf(runs.metricsOf('undisturbed')));
    const [begun] = await runs.run(2, [
      { name: 'never-saved', flags: ['--train-iters', '1'], isRestart: true },
    ]);
    expect(begun![0]!.output).toContain('training begins again');
    // what another job saved is neither taken nor mixed with its own
    const other = { name: 'restarted', isRestart: true, job: 'another job' };
    await expect(runs.run(1, [other])).rejects.toMatchObject({ code: 'MTL_CHECKPOINT_EXISTS' });
  });
});
