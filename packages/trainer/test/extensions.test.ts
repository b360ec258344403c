import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findCheckpoint } from '@mtl/checkpoint';
import { AdamwOptimizer, createStores, LossScaler } from '@mtl/optimizer';
import { expect, it, onTestFinished } from 'vitest';
import {
  runTraining,
  type StepMetrics,
  Trainer,
  type TrainerExtension,
  type TrainingProgress,
} from '../src/index.js';
import { gradientTensors } from '../src/internal/index.js';
import { type BigramBatch, BigramStage, onePiece } from './bigram-stage.js';

async function* batches(): AsyncGenerator<BigramBatch> {
  for (;;) yield { tokens: [1, 2], labels: [2, 3] };
}

/** Builds a small training run with these extensions. */
function build(extensions: readonly TrainerExtension[], progress?: TrainingProgress) {
  const stage = new BigramStage(8);
  const stores = createStores([stage.head], { device: 'cpu', dtype: 'float32', seed: 1 });
  const optimizer = new AdamwOptimizer(stores);
  onTestFinished(() => optimizer.dispose());
  const lossScaler = new LossScaler({ kind: 'constant' });
  const trainer = new Trainer<BigramBatch>({
    pipeline: onePiece(stage),
    optimizer,
    lossScaler,
    learningRate: 0.05,
    batches: batches(),
    losses: [{ name: 'lm_loss', per: 'token', count: ({ tokens }) => tokens.length }],
    trainIterations: 6,
    extensions,
    ...(progress === undefined ? {} : { progress }),
  });
  return { trainer, optimizer, lossScaler };
}

/** Counts steps, over resumed runs too, and ends a run after a given number. */
class StepCounter implements TrainerExtension {
  readonly name = 'counter';
  #numSteps = 0;

  constructor(private readonly most = Number.POSITIVE_INFINITY) {}

  get state() {
    return { numSteps: this.#numSteps };
  }

  restore(state: unknown): void {
    this.#numSteps = (state as StepCounter['state']).numSteps;
  }

  afterStep({ iteration }: StepMetrics) {
    this.#numSteps += 1;
    return [{ type: 'counted', iteration, fields: { num_steps: this.#numSteps } }] as const;
  }

  get endsRun(): string | undefined {
    return this.#numSteps === this.most ? 'counted enough' : undefined;
  }
}

it('an extension keeps its state through a resume, adds events and ends the run', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'mtl-extensions-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const save = { directory, interval: undefined, keepLast: undefined, configuration: {} };
  const counted: unknown[] = [];
  const reporters = [
    { event: ({ fields }: { fields: Record<string, unknown> }) => void counted.push(fields) },
  ];
  const first = build([new StepCounter(4)]);
  expect(await runTraining({ ...first, reporters, save })).toMatchObject({ reason: 'counted enough' });
  const found = await findCheckpoint({ directory, onNotice: () => {} });
  if (found.kind !== 'found') throw new Error('no checkpoint');
  const { state } = found.checkpoint;
  expect(state.counter).toEqual({ numSteps: 4 });

  const counter = new StepCounter();
  const second = build([counter], state.progress as unknown as TrainingProgress);
  second.trainer.extensions.restore(found.checkpoint);
  expect(await runTraining({ ...second, reporters })).toMatchObject({ reason: 'done' });
  expect(counter.state).toEqual({ numSteps: 6 });
  expect(counted).toEqual([1, 2, 3, 4, 5, 6].map((numSteps) => ({ num_steps: numSteps })));
});

it('extensions see a step in their order, the first outermost', async () => {
  const seen: string[] = [];
  const noting = (name: string): TrainerExtension => ({
    name,
    beforeStep: (iteration) => void seen.push(`${name} before ${iteration}`),
    aroundPasses: (_, passes) => {
      seen.push(`${name} passes`);
      passes();
      seen.push(`${name} passed`);
    },
    span: ({ kind }, body) => {
      seen.push(`${name} ${kind}`);
      return body();
    },
    onGradients: (optimizer, iteration) =>
      void seen.push(`${name} ${gradientTensors(optimizer).length} gradient of ${iteration}`),
    judge: ({ iteration }) => {
      seen.push(`${name} judges ${iteration}`);
      return { action: 'update', events: [] };
    },
    afterStep: ({ iteration }) => {
      seen.push(`${name} after ${iteration}`);
      return [];
    },
  });
  const { trainer } = build([noting('a'), noting('b')]);
  for await (const _ of trainer) break;
  expect(seen).toEqual([
    ...['a before 1', 'b before 1', 'a passes', 'b passes', 'b passed', 'a passed', 'a reduce', 'b reduce'],
    ...['a 1 gradient of 1', 'b 1 gradient of 1', 'a optimizer', 'b optimizer', 'a judges 1', 'b judges 1'],
    ...['a after 1', 'b after 1'],
  ]);
});

it('one refusal is enough, and a step that decides waits for it', async () => {
  const values = ({ optimizer }: ReturnType<typeof build>): number[] =>
    optimizer.stores[0]!.ranges[0]!.parameter.data.toArray();
  const judging = (name: string, action: 'update' | 'skip'): TrainerExtension => ({
    name,
    decides: true,
    judge: () => ({ action, events: [] }),
  });
  const built = build([judging('one', 'update'), judging('other', 'skip')]);
  const before = values(built);
  for await (const { skipped } of built.trainer) {
    expect(skipped).toBe(true);
    break;
  }
  expect(values(built)).toEqual(before);
});

it('refuses two extensions of one name, and the names of the loop', () => {
  const error = expect.objectContaining({ code: 'MTL_EXTENSION' });
  expect(() => build([{ name: 'one' }, { name: 'one' }])).toThrow(error);
  expect(() => build([{ name: 'progress' }])).toThrow(error);
});
