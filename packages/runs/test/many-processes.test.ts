import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  listNumbers,
  printedTwice,
  TrainingRuns,
  tolerances,
  validationDifference,
} from './support/training-runs.js';

let runs: TrainingRuns;
/** Outputs of the single-process runs. */
const written = { alone: '', 'alone-bf16': '', 'alone-12': '' };
/**
 * Options for a dozen steps: by then all faults of a layout are visible (parity.mjs). The parity command
 * trains longer.
 */
const dozen: RunOptions = { training: { exitInterval: 12 } };
beforeAll(async () => {
  runs = await TrainingRuns.create();
  const results = await runs.run(1, [
    { name: 'alone' },
    { name: 'alone-bf16', options: { training: { bf16: true } } },
    { name: 'alone-12', options: dozen },
  ]);
  [written.alone, written['alone-bf16'], written['alone-12']] = results.map(([one]) => one!.output) as [
    string,
    string,
    string,
  ];
});
afterAll(() => runs.remove());

const readSamples = (name: string): unknown[] =>
  readFileSync(join(runs.locate(name), 'samples.jsonl'), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));

const kinds = [
  { name: 'plain', options: {} },
  { name: 'overlap', options: { layout: { overlapGradReduce: true } } },
  { name: 'distributed', options: { layout: { useDistributedOptimizer: true } } },
  {
    name: 'distributed-overlap',
    options: { layout: { useDistributedOptimizer: true, overlapGradReduce: true, overlapParamGather: true } },
  },
];

// `npm run dev -- parity` compares both numbers of ranks in both precisions with one process
describe('a GPT on data-parallel ranks', () => {
  it.each([
    { dp: 2, precision: 'fp32', alone: 'alone', options: {} },
    { dp: 4, precision: 'bf16', alone: 'alone-bf16', options: { training: { bf16: true } } },
  ] as const)(
    'trains as in one process: $dp ranks, $precision',
    async ({ dp, precision, alone, options }) => {
      const reference = runs.readMetrics(alone);
      expect(reference[0]!.lm_loss - reference.at(-1)!.lm_loss).toBeGreaterThan(0.5);
      const trainings = kinds.map((kind) => ({
        name: `${kind.name}-${precision}-${dp}`,
        options: mergeOptions(options, kind.options),
      }));
      const results = await runs.run(dp, trainings);
      const first = runs.readMetrics(trainings[0]!.name);
      for (const { name } of trainings) {
        const difference = runs.differences(name, alone);
        expect(difference.loss).toBeLessThan(tolerances[precision].loss);
        expect(difference.norm).toBeLessThan(tolerances[precision].norm);
        // sums are made in the same order every time
        expect(listNumbers(runs.readMetrics(name))).toEqual(listNumbers(first));
      }
      for (const [index, [first, ...others]] of results.entries()) {
        expect(validationDifference(first!.output, written[alone])).toBeLessThan(
          tolerances[precision].loss + printedTwice,
        );
        expect(first!.sample).toMatch(/^A sample:\n.*(Line|says|ends)/);
        expect(readSamples(trainings[index]!.name)).toMatchObject([{ iteration: 24, text: first!.sample }]);
        for (const { output } of others) expect(output).toBe('');
      }
    },
  );
});

describe('a GPT on a mesh of tensor- and data-parallel ranks', () => {
  // losses and norms of other meshes are compared by `npm run dev -- parity`; here evaluations are, too
  it('trains and evaluates as in one process', async () => {
    const [tp, dp] = [2, 2];
    const size: RunOptions = { layout: { tensorModelParallelSize: tp } };
    const all = mergeOptions(size, { layout: { sequenceParallel: true } }, kinds.at(-1)!.options);
    const trainings = [
      { name: `tp-${tp}-${dp}`, options: mergeOptions(size, dozen) },
      { name: `tp-${tp}-${dp}-all`, options: mergeOptions(all, dozen) },
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
    const pipeline: RunOptions = { layout: { tensorModelParallelSize: 2, pipelineModelParallelSize: 2 } };
    const gathered = mergeOptions(kinds.at(-1)!.options, {
      layout: { tensorModelParallelSize: 2, sequenceParallel: true },
    });
    const short: RunOptions = { training: { exitInterval: 6, evalInterval: 3 } };
    const layouts = { pipeline, gathered };
    for (const [layout, options] of Object.entries(layouts)) {
      const [name, without] = [`samples-${layout}`, `no-samples-${layout}`];
      await runs.run(4, [
        { name, options: mergeOptions(short, options, { logging: { noEvalSamples: undefined } }) },
        { name: without, options: mergeOptions(short, options) },
      ]);
      expect(listNumbers(runs.readMetrics(name))).toEqual(listNumbers(runs.readMetrics(without)));
      const validations = (of: string): unknown[] =>
        runs.readRecords(of).flatMap(({ type, lm_loss }) => (type === 'validation' ? [lm_loss] : []));
      expect(validations(name)).toEqual(validations(without));
      expect(readSamples(name)).toMatchObject(
        [3, 6].map((iteration) => ({
          iteration,
          label: 'A sample',
          text: expect.stringMatching(/^A sample:\n/),
          prompt: expect.stringMatching(/./),
          completion: expect.any(String),
        })),
      );
      expect(existsSync(join(runs.locate(without), 'samples.jsonl'))).toBe(false);
    }
  });
});

describe('a GPT in processes that share memory', () => {
  it('trains as on in-memory ranks', async () => {
    const processes = 4;
    const trainings = kinds.map((kind) => ({
      name: `local-${kind.name}-${processes}`,
      options: kind.options,
    }));
    await runs.runInProcesses(processes, trainings);
    const first = runs.readMetrics(trainings[0]!.name);
    for (const { name } of trainings) {
      const difference = runs.differences(name, 'alone');
      expect(difference.loss).toBeLessThan(tolerances.fp32.loss);
      expect(difference.norm).toBeLessThan(tolerances.fp32.norm);
      expect(listNumbers(runs.readMetrics(name))).toEqual(listNumbers(first));
    }
    // both engines add float32 in the order of the ranks
    await runs.run(processes, [{ name: `memory-${processes}` }]);
    expect(listNumbers(first)).toEqual(listNumbers(runs.readMetrics(`memory-${processes}`)));
  });
});

describe('checkpoints', () => {
  it('let a GPT go on in another layout, and are written for and read from Hugging Face in any', async () => {
    const [huggingFace, save] = [runs.locate('hugging-face'), runs.locate('moved')];
    const distributed: RunOptions = { layout: { useDistributedOptimizer: true, overlapParamGather: true } };
    await runs.run(4, [
      { name: 'moved', options: mergeOptions(distributed, { training: { exitInterval: 8 } }) },
    ]);
    await runs.run(1, [
      { name: 'moved', options: { checkpoint: { load: save }, training: { exitInterval: 12 } } },
    ]);
    await runs.run(2, [
      {
        name: 'moved',
        options: mergeOptions({ checkpoint: { load: save } }, distributed, {
          checkpoint: { saveHuggingFace: huggingFace },
        }),
      },
    ]);
    const difference = runs.differences('moved', 'alone');
    expect(difference.loss).toBeLessThan(tolerances.fp32.loss);
    expect(difference.norm).toBeLessThan(tolerances.fp32.norm);
    const starting: RunOptions = {
      checkpoint: { loadHuggingFace: huggingFace },
      training: { trainIterations: 2 },
    };
    await runs.run(1, [{ name: 'from-hf-alone', options: starting }]);
    await runs.run(2, [{ name: 'from-hf', options: mergeOptions(starting, distributed) }]);
    expect(runs.differences('from-hf', 'from-hf-alone').loss).toBeLessThan(tolerances.fp32.loss);
    // ln 257 is 5.55: training continues from the learned weights
    expect(runs.readMetrics('from-hf')[0]!.lm_loss).toBeLessThan(runs.readMetrics('alone')[2]!.lm_loss);
  });

  it('change tensor parallelism in the middle of a run', async () => {
    const load: RunOptions = { checkpoint: { load: runs.locate('meshes') } };
    const tensor = (size: number): RunOptions => ({ layout: { tensorModelParallelSize: size } });
    const distributed = mergeOptions(tensor(2), {
      layout: { useDistributedOptimizer: true, sequenceParallel: true },
    });
    await runs.run(4, [
      { name: 'meshes', options: mergeOptions(distributed, { training: { exitInterval: 8 } }) },
    ]);
    await runs.run(4, [
      { name: 'meshes', options: mergeOptions(load, tensor(4), { training: { exitInterval: 16 } }) },
    ]);
    await runs.run(1, [{ name: 'meshes', options: load }]);
    const difference = runs.differences('meshes', 'alone');
    expect(difference.loss).toBeLessThan(tolerances.fp32.loss);
    expect(difference.norm).toBeLessThan(tolerances.fp32.norm);
  });

  it('are continued by a training run that was started again', async () => {
    const interrupted: RunOptions = { checkpoint: { saveInterval: 5 } };
    await runs.run(2, [
      { name: 'restarted', options: mergeOptions(interrupted, { training: { exitInterval: 10 } }) },
    ]);
    const [again] = await runs.run(2, [{ name: 'restarted', options: interrupted, isRestart: true }]);
    expect(again![0]!.output).toContain('iteration 10');
    await runs.run(2, [{ name: 'undisturbed' }]);
    expect(listNumbers(runs.readMetrics('restarted'))).toEqual(listNumbers(runs.readMetrics('undisturbed')));
    const [begun] = await runs.run(2, [
      { name: 'never-saved', options: { training: { trainIterations: 1 } }, isRestart: true },
    ]);
    expect(begun![0]!.output).toContain('training begins again');
    // the job neither loads nor overwrites checkpoints of another job
    const other = { name: 'restarted', isRestart: true, job: 'another job' };
    await expect(runs.run(1, [other])).rejects.toMatchObject({ code: 'MTL_CHECKPOINT_EXISTS' });
  });
});
