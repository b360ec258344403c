import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { JsonObject } from '@mtl/checkpoint';
import { configurationJson } from '@mtl/configuration';
import { configure } from '@mtl/configuration/testing';
import { formatError, type MtlError } from '@mtl/errors';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type ResumedConfigurationOptions, resumedConfiguration } from './resumed-configuration.js';

const base =
  '--preset none --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 --data-path bundled --micro-batch-size 2 ' +
  '--train-iters 100 --lr 1e-3 --min-lr 1e-4 --lr-decay-style cosine --lr-warmup-fraction 0.105 --load x';

/** Returns the base command line with some flags replaced. */
function line(flags: string): string {
  const names = [...flags.matchAll(/--([a-z0-9-]+)/g)].map(([, name]) => name!);
  return `${names.reduce((text, name) => text.replace(new RegExp(` --${name} \\S+`), ''), base)} ${flags}`;
}

/** Returns a checkpoint as a training run with the given flags would save it. */
function makeCheckpoint(flags: string): ResumedConfigurationOptions['checkpoint'] {
  const saved = { ...configurationJson(configure(line(flags))), trainedOn: { dataPath: [], split: '1' } };
  const configuration = JSON.parse(JSON.stringify(saved)) as JsonObject;
  return { path: 'x/iter_0000050', state: { configuration } };
}

function resume(flags: string, { before = '', ...more }: { before?: string; commandLine?: string } = {}) {
  const configuration = configure(line(flags));
  return resumedConfiguration({
    configuration,
    checkpoint: makeCheckpoint(before),
    withOptimizer: true,
    ...more,
  });
}

function catchRefusal(...parameters: Parameters<typeof resume>): MtlError {
  try {
    resume(...parameters);
  } catch (error) {
    expect(error).toMatchObject({ code: 'MTL_CHECKPOINT_SCHEDULE', exitCode: 2 });
    return error as MtlError;
  }
  throw new Error('not refused');
}

describe('a resumed run', () => {
  it('has the same settings as its checkpoint, whatever its layout, reports and places', () => {
    const same = resume('--log-interval 3 --save y --save-interval 2 --micro-batch-size 2 --threads 1');
    expect(same.notes).toEqual([]);
  });

  it.each([
    ['--lr 2e-3', '--lr 0.001, and this run has --lr 0.002'],
    ['--min-lr 0', '--min-lr 0.0001, and this run has --min-lr 0'],
    ['--lr-warmup-fraction 0.2', '--lr-warmup-iters 10.5, and this run has --lr-warmup-iters 20'],
    ['--lr-warmup-init 1e-5', '--lr-warmup-init 0, and this run has --lr-warmup-init 0.00001'],
    ['--lr-decay-style linear', '--lr-decay-style cosine, and this run has --lr-decay-style linear'],
    ['--weight-decay 0.3', '--weight-decay 0.01, and this run has --weight-decay 0.3'],
    ['--decoupled-lr 2e-3', 'and this run has --decoupled-lr 0.002 --decoupled-min-lr 0.0001'],
    [
      '--lr-decay-iters 90',
      '--lr-warmup-iters 10.5 --lr-decay-iters 100, and this run has --lr-warmup-iters 9.45 --lr-decay-iters 90',
    ],
    [
      '--lr-decay-style WSD --lr-wsd-decay-iters 5',
      'has --lr-decay-style WSD --lr-wsd-decay-iters 5 --lr-wsd-decay-style exponential',
    ],
  ])('is refused with another schedule: %s', (flags, text) => {
    const error = catchRefusal(flags);
    expect(error.message).toContain(text);
    expect(error.remedy).toContain(
      "to keep the checkpoint's schedule: add --use-checkpoint-opt_param-scheduler",
    );
    expect(error.remedy).toContain(
      'to use the schedule of this command line: add --override-opt_param-scheduler',
    );
  });

  it('is refused with a schedule in samples, which only --override makes the one in force', () => {
    const samples =
      '--preset none --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 --data-path bundled --micro-batch-size 2 --train-samples 200 --lr 1e-3 --load x';
    const other = { checkpoint: makeCheckpoint(''), withOptimizer: true };
    const inSamples = (flags: string) =>
      resumedConfiguration({ ...other, configuration: configure(`${samples} ${flags}`) });
    expect(() => inSamples('')).toThrow(/--lr-decay-iters 100, and this run has .*--lr-decay-samples 200/);
    expect(() => inSamples('--use-checkpoint-opt_param-scheduler')).toThrow(/was trained with/);
    expect(inSamples('--override-opt_param-scheduler').notes.length).toBeGreaterThan(0);
  });

  it('is refused with more steps that stretch the decay, and both command lines are printed', () => {
    const error = catchRefusal('--train-iters 200', { commandLine: 'gpt-train --train-iters 200' });
    expect(formatError(error)).toBe(
      'error[MTL_CHECKPOINT_SCHEDULE]: x/iter_0000050 was trained with --lr-warmup-iters 10.5 --lr-decay-iters 100, and this run has ' +
        '--lr-warmup-iters 21 --lr-decay-iters 200; the decay lasts as long as training (no --lr-decay-iters); ' +
        'expected the schedule of the checkpoint, or a flag that selects one of the two\n' +
        "  remedy: to keep the checkpoint's schedule:\n    gpt-train --train-iters 200 --lr-decay-iters 100\n" +
        '  to use the schedule of this command line:\n    gpt-train --train-iters 200 --override-opt_param-scheduler',
    );
    // both remedies in the error message work
    expect(resume('--train-iters 200 --lr-decay-iters 100').notes).toEqual([]);
    expect(resume('--train-iters 200 --override-opt_param-scheduler').notes).toContain(
      '    --lr-decay-iters 100 -> 200',
    );
    const constant = '--lr-decay-style constant --lr-warmup-fraction 0 --train-iters';
    expect(resume(`${constant} 200`, { before: `${constant} 100` }).notes).toEqual([]);
  });

  it("takes the learning rates of the checkpoint's word embedding, or none of their own", () => {
    const decoupled = '--decoupled-lr 2e-3';
    const { optimizer, flags } = resume('--use-checkpoint-opt_param-scheduler', {
      before: decoupled,
    }).configuration;
    expect(optimizer.decoupledLearningRate).toEqual({ maxLearningRate: 2e-3, minLearningRate: 1e-4 });
    expect(flags).toMatchObject({ 'decoupled-lr': 2e-3, 'decoupled-min-lr': 1e-4 });
    const other = resume(`${decoupled} --use-checkpoint-opt_param-scheduler`).configuration;
    expect(other.optimizer).not.toHaveProperty('decoupledLearningRate');
    expect(other.flags['decoupled-lr']).toBeUndefined();
    expect(resume(decoupled, { before: decoupled }).notes).toEqual([]);
  });

  it('takes the schedule of the command line with --override-opt_param-scheduler', () => {
    for (const flag of [
      '--override-opt_param-scheduler',
      '--override-opt-param-scheduler',
      '--override-lr-scheduler',
    ]) {
      const { configuration, notes } = resume(`--lr 2e-3 ${flag}`);
      expect(configuration.optimizer.learningRate.maxLearningRate).toBe(2e-3);
      expect(notes).toEqual([
        expect.stringContaining('x/iter_0000050 (old -> new)'),
        '    --lr 0.001 -> 0.002',
      ]);
    }
  });

  it('takes the schedule of the checkpoint with --use-checkpoint-opt_param-scheduler, and saves it as its own', () => {
    const flags = '--lr 2e-3 --weight-decay 0.3 --train-iters 200 --use-checkpoint-opt_param-scheduler';
    const { configuration, notes } = resume(flags);
    const before = configure(line('')).optimizer;
    expect(configuration.optimizer).toEqual(before);
    expect(notes).toContain("    --lr 0.002 -> 0.001 (the checkpoint's)");
    const file = join(mkdtempSync(join(tmpdir(), 'mtl-resumed-')), 'saved.json');
    onTestFinished(() => rmSync(dirname(file), { recursive: true }));
    writeFileSync(file, JSON.stringify(configurationJson(configuration)));
    const again = configure(`--config ${file}`);
    expect(again.optimizer).toEqual(before);
    expect(again.training.trainIterations).toBe(200);
  });

  it('lists what else differs and uses the new values', () => {
    const { configuration, notes } = resume(
      '--seed 7 --attention-dropout 0.2 --hidden-dropout 0 --adam-beta1 0.8 --adam-beta2 0.99 --adam-eps 1e-6 --clip-grad 2 --global-batch-size 8 --split 90,10,0',
    );
    expect(notes).toEqual([
      '  settings that differ from x/iter_0000050 (old -> new):',
      '    --seed 1234 -> 7',
      '    --attention-dropout 0.1 -> 0.2',
      '    --hidden-dropout 0.1 -> 0',
      '    --adam-beta1 0.9 -> 0.8',
      '    --adam-beta2 0.999 -> 0.99',
      '    --adam-eps 1e-8 -> 0.000001',
      '    --clip-grad 1 -> 2',
      '    --global-batch-size 2 -> 8',
      '    --split 969,30,1 -> 90,10,0',
    ]);
    expect(configuration.training.seed).toBe(7);
  });

  it('is not compared in its schedule without the optimizer of the checkpoint', () => {
    const configuration = configure(line('--lr 2e-3 --seed 7 --no-load-optim'));
    const { notes } = resumedConfiguration({
      configuration,
      checkpoint: makeCheckpoint(''),
      withOptimizer: false,
    });
    expect(notes.slice(1)).toEqual(['    --seed 1234 -> 7']);
  });

  it('goes on from conversations that an older version warmed up to over parts of steps', () => {
    const conversations =
      '--train-data a --validation-fraction 0.1 --tokenizer-type ByteLevelTokenizer --lr-warmup-fraction 0.105';
    const text = (of: object) => JSON.parse(JSON.stringify(of)) as JsonObject;
    const plain = line(conversations).replace(' --data-path bundled', '');
    const saved = text(configurationJson(configure(plain)));
    const rate = (saved.resolved as { optimizer: { learningRate: { warmupSteps: number } } }).optimizer
      .learningRate;
    rate.warmupSteps = 10.5;
    const state = { configuration: { ...saved, trainedOn: { dataPath: [], split: '1' } } };
    const checkpoint = { path: 'x/iter_0000050', state: state as JsonObject };
    const { configuration, notes } = resumedConfiguration({
      configuration: configure(plain),
      checkpoint,
      withOptimizer: true,
    });
    expect(notes).toEqual([]);
    expect(configuration.optimizer.learningRate.warmupSteps).toBe(10);
  });

  it('goes on from checkpoints that record no settings, as older versions and mtl convert write them', () => {
    const { path, state } = makeCheckpoint('');
    const { trainedOn: _trainedOn, ...converted } = state.configuration as JsonObject;
    const { resolved: _resolved, ...old } = state.configuration as JsonObject;
    for (const configuration of [converted, old, {}]) {
      const checkpoint = { path, state: { configuration } };
      const options = { checkpoint, withOptimizer: true };
      const other = configure(line('--lr 2e-3 --seed 7'));
      expect(resumedConfiguration({ ...options, configuration: other }).notes).toEqual([]);
      const asked = configure(line('--use-checkpoint-opt_param-scheduler'));
      expect(() => resumedConfiguration({ ...options, configuration: asked })).toThrow(/records no schedule/);
    }
  });
});
