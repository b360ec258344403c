import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseFlags, validateConfiguration } from '@mtl/configuration';
import { readRun } from '@mtl/run-records';
import type { TrainerExtension } from '@mtl/trainer';
import { forgetStopSignal, stopSignal } from '@mtl/trainer/stop-signals';
import { afterAll, expect, it, onTestFinished, vi } from 'vitest';
import { openTraining, type Pretraining } from './open-training.js';
import { type TrainOptions, train } from './train.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-train-'));
afterAll(() => rmSync(directory, { recursive: true }));

const tiny = {
  preset: 'char-10m',
  model: { numLayers: 1, hiddenSize: 32, numAttentionHeads: 2, maxPositionEmbeddings: 16 },
  data: { sequenceLength: 16 },
  training: { microBatchSize: 2, globalBatchSize: 2, trainIterations: 6, evalIterations: 0 },
  layout: { threads: 1 },
  logging: { noEvalSamples: true },
} as const satisfies TrainOptions;

const tinyLine =
  '--preset char-10m --num-layers 1 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 ' +
  '--micro-batch-size 2 --global-batch-size 2 --train-iters 6 --eval-iters 0 --threads 1 --no-eval-samples';

/** Trains to the end. Returns the losses by iteration. */
async function collectLosses(training: Pretraining): Promise<Readonly<Record<number, number>>> {
  const losses: Record<number, number> = {};
  for await (const { iteration, loss } of training) losses[iteration] = loss;
  return losses;
}

/** Returns the losses of the same run, started from a command line. */
async function lossesOfLine(): Promise<Readonly<Record<number, number>>> {
  await using training = await openTraining({
    configuration: validateConfiguration(parseFlags(tinyLine.split(' '))),
    corpusDirectory: join('.cache', 'mtl'),
    stream: { write: () => true },
  });
  return await collectLosses(training);
}

it('trains as the same flags do, and prints nothing unless it is asked to', async () => {
  const printed = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  await using training = await train(tiny);
  const losses = await collectLosses(training);
  expect(printed).not.toHaveBeenCalled();
  printed.mockRestore();
  expect(Object.keys(losses)).toHaveLength(6);
  expect(losses).toEqual(await lossesOfLine());

  const told: string[] = [];
  const write = (text: string): boolean => told.push(text) > 0;
  await using aloud = await train({ ...tiny, stream: { write } });
  expect(await aloud.run()).toMatchObject({ reason: 'done', checkpointPath: undefined });
  expect(told.join('')).toContain('parameters');
});

it('goes on from what it saved with the same losses', async () => {
  const expected = await lossesOfLine();
  const save = join(directory, 'resumed');
  let numSteps = 0;
  const counter: TrainerExtension = {
    name: 'counter',
    get state() {
      return { numSteps };
    },
    restore: (state) => {
      numSteps = (state as { numSteps: number }).numSteps;
    },
    afterStep: () => {
      numSteps += 1;
      return [];
    },
  };
  const extensions = [counter];
  const half = { ...tiny, checkpoint: { save }, training: { ...tiny.training, exitInterval: 3 } };
  {
    await using training = await train({ ...half, extensions });
    expect(await training.run()).toMatchObject({ reason: 'exit-interval' });
  }
  numSteps = 0;
  await using training = await train({ ...tiny, checkpoint: { save, load: save }, extensions });
  const losses = await collectLosses(training);
  expect(losses).toEqual({ 4: expected[4], 5: expected[5], 6: expected[6] });
  expect(numSteps).toBe(6);
});

it('can be left, which its folder says; the steps are run once', async () => {
  const save = join(directory, 'left');
  {
    await using training = await train({ ...tiny, checkpoint: { save, saveInterval: 2 } });
    for await (const { iteration } of training) if (iteration === 3) break;
    await expect(training.run()).rejects.toMatchObject({ code: 'MTL_RUN_OVER' });
  }
  expect(await readRun(save)).toMatchObject({ state: 'stopped' });
  // the folder is no longer owned, and contains the checkpoint of step 2
  await using training = await train({ ...tiny, checkpoint: { save, load: save } });
  expect(Object.keys(await collectLosses(training))).toEqual(['3', '4', '5', '6']);
});

it('lists the checkpoints of a run that goes back while all ranks wait', async () => {
  const [save, moved] = [join(directory, 'listed'), join(directory, 'moved')];
  {
    const training = { ...tiny.training, exitInterval: 2 };
    await using first = await train({ ...tiny, training, checkpoint: { save } });
    await first.run();
  }
  await using training = await train({ ...tiny, checkpoint: { save, load: save, checkpointStep: 2 } });
  // makes later reads of the folder fail
  renameSync(save, moved);
  writeFileSync(save, '');
  onTestFinished(() => void vi.restoreAllMocks());
  vi.spyOn(training.processes, 'together').mockRejectedValueOnce(new Error('all ranks wait'));
  await expect(training.run()).rejects.toThrow('all ranks wait');
  rmSync(save);
  renameSync(moved, save);
});

it('starts no further run after a signal, however many the program would train', async () => {
  onTestFinished(forgetStopSignal);
  const reasons: string[] = [];
  const loop = async (): Promise<void> => {
    for (let index = 0; index < 3; index++) {
      await using training = await train(tiny);
      for await (const { iteration } of training)
        if (iteration === 2 && index === 1) process.emit('SIGTERM', 'SIGTERM');
      reasons.push(training.result!.reason);
    }
  };
  expect(stopSignal()).toBeUndefined();
  await expect(loop()).rejects.toMatchObject({
    code: 'MTL_STOP_SIGNAL',
    message: 'SIGTERM has asked this process to stop: no further training run starts',
    details: { signal: 'SIGTERM' },
  });
  expect(reasons).toEqual(['done', 'SIGTERM']);
  expect(stopSignal()).toBe('SIGTERM');
  forgetStopSignal();
  await using again = await train(tiny);
  expect(await again.run()).toMatchObject({ reason: 'done' });
  // a signal after the last step of a run also ends the process
  await using last = await train({ ...tiny, extensions: [signalAtEnd] });
  expect(await last.run()).toMatchObject({ reason: 'done' });
  await expect(train(tiny)).rejects.toMatchObject({ code: 'MTL_STOP_SIGNAL' });
});

/** An extension that simulates a signal after the last step of the run. */
const signalAtEnd: TrainerExtension = {
  name: 'signal at the end',
  end: () => {
    process.emit('SIGTERM', 'SIGTERM');
    return [];
  },
};

it('refuses options in their own words', async () => {
  const load = join(directory, 'none');
  await expect(train({ ...tiny, checkpoint: { load } })).rejects.toMatchObject({
    code: 'MTL_CHECKPOINT_NONE',
    message: expect.stringContaining('checkpoint.load'),
  });
  await expect(train({ ...tiny, layout: { tensorModelParallelSize: 2 } })).rejects.toMatchObject({
    code: 'MTL_WORLD_SIZE',
    message: expect.not.stringContaining('--'),
  });
});
