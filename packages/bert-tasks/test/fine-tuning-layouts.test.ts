import { existsSync, readdirSync, readFileSync } from 'node:fs';
import type { RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { processTestMs, TrainingRuns, WaitingRanks } from '@mtl/runs/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { FineTuningConfiguration } from '../src/flags/fine-tuning-configuration.js';
import { type FineTuningReport, fineTune } from '../src/runs/fine-tune.js';
import type { FineTuneArgument } from './ranks/fine-tune.js';
import { SmallTasks } from './support/small-tasks.js';
import { readSteps } from './support/task-steps.js';

let tasks: SmallTasks;
const ranks = new WaitingRanks<readonly FineTuneArgument[], FineTuningReport[]>(
  new URL('./ranks/fine-tune.ts', import.meta.url),
);
beforeAll(() => {
  tasks = new SmallTasks();
});
afterAll(async () => {
  await ranks.close();
  tasks.remove();
});

const onMessage = (): void => {};
type Parallel = FineTuningConfiguration['parallel'];

async function onRanks(
  worldSize: number,
  argument: readonly FineTuneArgument[],
): Promise<FineTuningReport[][]> {
  const results = await ranks.run(worldSize, argument);
  return argument.map((_, index) => results.map((reports) => reports[index]!));
}

const saving = (name: string, more: Partial<FineTuningConfiguration['checkpoint']> = {}) => ({
  checkpoint: {
    save: tasks.path(name),
    saveHuggingFace: undefined,
    saveInterval: undefined,
    keepLast: 1,
    resume: false,
    ...more,
  },
});

/** Returns a model of four layers, so that a pipeline can have several chunks on a stage. */
function deep(placement: 'pre' | 'post' = 'pre'): Pick<FineTuningConfiguration, 'start'> {
  const { start } = tasks.configuration('qqp');
  return { start: { ...start, scratch: { ...start.scratch!, numLayers: 4, layerNormPlacement: placement } } };
}

const tensor: Parallel = { 'tensor-model-parallel-size': 2 };
const stages: Parallel = { 'pipeline-model-parallel-size': 2 };
const distributed: Parallel = {
  'use-distributed-optimizer': true,
  'overlap-grad-reduce': true,
  'overlap-param-gather': true,
};
const chunks: Parallel = { 'num-virtual-stages-per-pipeline-rank': 2 };

interface Layout {
  readonly name: string;
  readonly worldSize: number;
  readonly parallel: Parallel;
  /** True for layouts that are tested with all tasks; the first task is tested with all layouts. */
  readonly isForAll?: true;
}

const layouts: readonly Layout[] = [
  { name: 'dp2', worldSize: 2, parallel: {} },
  { name: 'dp2-distributed', isForAll: true, worldSize: 2, parallel: distributed },
  { name: 'tp2', worldSize: 2, parallel: tensor },
  { name: 'tp2-sp', isForAll: true, worldSize: 2, parallel: { ...tensor, 'sequence-parallel': true } },
  { name: 'pp2', worldSize: 2, parallel: stages },
  { name: 'pp2-interleaved', isForAll: true, worldSize: 2, parallel: { ...stages, ...chunks } },
  { name: 'pp2-zb-v', worldSize: 2, parallel: { ...stages, 'pipeline-schedule': 'zb-v' } },
  {
    name: 'pp2-uneven',
    worldSize: 2,
    parallel: { ...stages, 'pipeline-model-parallel-layout': 'Ettt|tL', 'pipeline-schedule': 'zb-h1' },
  },
  { name: 'pp4', worldSize: 4, parallel: { 'pipeline-model-parallel-size': 4 } },
  {
    name: 'tp2-sp-pp2-interleaved',
    isForAll: true,
    worldSize: 4,
    parallel: { ...tensor, ...stages, ...chunks, 'sequence-parallel': true },
  },
  { name: 'pp2-dp2-distributed', isForAll: true, worldSize: 4, parallel: { ...stages, ...distributed } },
];

describe('fine-tuning on several processes', () => {
  it.each(['qqp', 'race', 'squad'] as const)(
    'is fine-tuning on one: %s',
    async (task) => {
      const argument = (name: string, parallel: Parallel = {}): FineTuneArgument => {
        const changes = {
          ...saving(`${task}-${name}`),
          // the order of a second epoch does not depend on the task
          epochs: task === 'qqp' ? 2 : 1,
          ...deep(task === 'race' ? 'post' : 'pre'),
        };
        const configuration = tasks.configuration(task, changes);
        return {
          seeds: [5],
          configuration: {
            ...configuration,
            parallel: { ...configuration.parallel, ...parallel },
            metricsJsonl: tasks.path(`${task}-${name}.jsonl`),
          },
        };
      };
      const [[alone]] = (await onRanks(1, [argument('alone')])) as [[FineTuningReport]];
      for (const worldSize of [2, 4]) {
        const own = layouts.filter(
          (layout) => layout.worldSize === worldSize && (task === 'qqp' || layout.isForAll === true),
        );
        const sharded = await onRanks(
          worldSize,
          own.map(({ name, parallel }) => argument(name, parallel)),
        );
        for (const [index, { name }] of own.entries())
          expectSame({ task, name, alone, reports: sharded[index]! });
      }
    },
    processTestMs,
  );

  function expectSame(options: {
    readonly task: string;
    readonly name: string;
    readonly alone: FineTuningReport;
    readonly reports: readonly FineTuningReport[];
  }): void {
    const { task, name, alone, reports } = options;
    const [reference, steps] = ['alone', name].map((run) => readSteps(tasks.path(`${task}-${run}.jsonl`)));
    expect(steps).toHaveLength(reference!.length);
    steps!.forEach((step, at) => {
      // the bounds of the design for layouts, dropout included
      const { task_loss, grad_norm } = reference![at]!;
      expect(Math.abs(step.task_loss / task_loss - 1), `${name}, step ${at + 1}`).toBeLessThan(2e-6);
      expect(Math.abs(step.grad_norm / grad_norm - 1), `${name}, step ${at + 1}`).toBeLessThan(2e-5);
    });
    // every rank gets the results
    for (const { seeds } of reports)
      expect(seeds.map(({ epochs }) => epochs)).toEqual(reports[0]!.seeds.map(({ epochs }) => epochs));
    const [set] = Object.keys(alone.median) as [string];
    expect(Math.abs(reports[0]!.median[set]!.loss! / alone.median[set]!.loss! - 1), name).toBeLessThan(2e-6);
    for (const path of alone.seeds[0]!.predictions) {
      const other = path.replace(`${task}-alone`, `${task}-${name}`);
      expect(existsSync(other)).toBe(true);
      // probabilities are rounded like losses; the chosen answers are the same
      if (!path.includes('no-answer')) expect(readFileSync(other, 'utf8')).toBe(readFileSync(path, 'utf8'));
    }
  }

  it('goes on with what the first rank finds', async () => {
    const configuration = tasks.configuration('qqp', { ...saving('first-finds'), epochs: 1 });
    const alone = await fineTune({ configuration, seeds: [5], onMessage });
    const resumed = { ...configuration, checkpoint: { ...configuration.checkpoint, resume: true } };
    const [reports] = await onRanks(2, [
      { configuration: resumed, seeds: [5], saveElsewhere: tasks.path('empty') },
    ]);
    for (const { seeds } of reports!) expect(seeds).toEqual(alone.seeds);
  });

  it('ends on all ranks after the seed in which a rank got a signal', async () => {
    const configuration = tasks.configuration('qqp', { epochs: 1 });
    const [reports] = await onRanks(2, [{ configuration, seeds: [5, 6], signalOnRank: 1 }]);
    expect(reports).toMatchObject([
      { reason: 'SIGTERM', seeds: [{ seed: 5 }] },
      { reason: 'SIGTERM', seeds: [{ seed: 5 }] },
    ]);
    for (const { seeds } of reports!) expect(seeds).toHaveLength(1);
  });

  const makeArgument = (
    save: string,
    more: Partial<FineTuningConfiguration>,
    resume = false,
  ): FineTuneArgument => ({
    seeds: [5],
    configuration: tasks.configuration('qqp', {
      ...saving(save, { resume }),
      ...deep(),
      epochs: 2,
      ...more,
    }),
  });

  it(
    'goes on after an interruption as if there had been none, bit for bit, in a pipeline with chunks',
    async () => {
      const parallel = { threads: 1, ...tensor, ...stages, ...chunks };
      const [whole] = await onRanks(4, [makeArgument('whole', { parallel })]);
      await onRanks(4, [makeArgument('parts', { parallel, exitInterval: 7 })]);
      const [parts] = await onRanks(4, [makeArgument('parts', { parallel }, true)]);
      expect(parts!.map(({ median }) => median)).toEqual(whole!.map(({ median }) => median));
      const names = readdirSync(tasks.path('whole/seed-5/iter_0000010'));
      expect(names.filter((name) => name.endsWith('.safetensors')).length).toBeGreaterThan(1);
      for (const name of names.filter((one) => one.endsWith('.safetensors'))) {
        const [actual, expected] = ['parts', 'whole'].map((run) =>
          readFileSync(tasks.path(`${run}/seed-5/iter_0000010/${name}`)),
        );
        expect(actual!.equals(expected!), name).toBe(true);
      }
    },
    processTestMs,
  );

  it(
    'moves from one layout to another',
    async () => {
      await fineTune({ ...makeArgument('moving', { exitInterval: 3 }), onMessage });
      const cut = { threads: 1, ...tensor, 'sequence-parallel': true };
      await onRanks(2, [makeArgument('moving', { parallel: cut, exitInterval: 6 }, true)]);
      const piped = { threads: 1, ...stages, ...chunks };
      const [[moved]] = (await onRanks(2, [makeArgument('moving', { parallel: piped }, true)])) as [
        [FineTuningReport],
      ];
      const stayed = await fineTune({ ...makeArgument('staying', {}), onMessage });
      expect(Math.abs(moved.median.dev!.loss! / stayed.median.dev!.loss! - 1)).toBeLessThan(2e-6);
    },
    processTestMs,
  );

  it(
    'starts in any layout from a model that was pretrained in any other',
    async () => {
      const pretraining = await TrainingRuns.create(
        { model: { numLayers: 4 }, training: { trainIterations: 2 } },
        'bert',
      );
      try {
        const layout: RunOptions = {
          layout: { pipelineModelParallelSize: 2, numVirtualStagesPerPipelineRank: 2 },
        };
        await pretraining.run(4, [
          {
            name: 'bert',
            options: mergeOptions(layout, { layout: { tensorModelParallelSize: 2, sequenceParallel: true } }),
          },
        ]);
        const { start } = tasks.configuration('qqp');
        const argument = (parallel: Parallel, initialWeights = false): FineTuneArgument => ({
          seeds: [5],
          configuration: tasks.configuration('qqp', {
            epochs: 1,
            parallel: { threads: 1, ...parallel },
            start: { ...start, scratch: undefined, load: pretraining.locate('bert'), initialWeights },
          }),
        });
        const [[alone], [fresh]] = (await onRanks(1, [argument({}), argument({}, true)])) as [
          [FineTuningReport],
          [FineTuningReport],
        ];
        // pretrained weights make a difference
        expect(Math.abs(fresh.median.dev!.loss! / alone.median.dev!.loss! - 1)).toBeGreaterThan(1e-4);
        const sharded = await onRanks(2, [
          argument(stages),
          argument({ ...stages, ...chunks }),
          argument(tensor),
        ]);
        for (const [report] of sharded)
          expect(Math.abs(report!.median.dev!.loss! / alone.median.dev!.loss! - 1)).toBeLessThan(2e-6);
      } finally {
        await pretraining.remove();
      }
    },
    processTestMs,
  );
});
