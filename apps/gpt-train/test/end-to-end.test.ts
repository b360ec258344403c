import { execFileSync, spawn, spawnSync } from 'node:child_process';
import {
  closeSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkpointBytes, prepareCorpus, withoutFlags } from '@mtl/runs/testing';
import { inWholeRuns } from '@mtl/tooling/in-whole-runs';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { gptTrain, readMetrics, runGptTrain, runGptTrainHere } from './run-gpt-train.js';

let directory: string;
let data: readonly string[];

/** Flags of a training run that takes a second: a tiny model on a tiny dataset, in steps of 4 samples. */
const tiny = [
  ...['--preset', 'none', '--num-layers', '2', '--hidden-size', '32', '--num-attention-heads', '2'],
  ...[
    '--seq-length',
    '32',
    '--max-position-embeddings',
    '32',
    '--micro-batch-size',
    '2',
    '--global-batch-size',
    '4',
  ],
  ...['--lr', '1e-3', '--lr-decay-style', 'cosine', '--lr-decay-iters', '12', '--train-iters', '12'],
  ...[
    '--eval-iters',
    '1',
    '--eval-interval',
    '100',
    '--log-interval',
    '1',
    '--split',
    '90,10,0',
    '--threads',
    '1',
  ],
];

/** Returns the flags of the tiny recipe, with the given flags in place of the recipe's values. */
const recipeWith = (given: readonly string[]) => [...withoutFlags([...tiny, ...data], given), ...given];

const train = (given: readonly string[]) => runGptTrainHere({ flags: recipeWith(given), directory });

/** A run of the tiny recipe up to step 12. Several tests check it, and continue it in a copy. */
const whole = {
  get path(): string {
    return join(directory, 'whole');
  },
  get metrics(): string {
    return `${this.path}.jsonl`;
  },
  get huggingFace(): string {
    return join(directory, 'hugging-face');
  },
  output: '',
  /** Copies the run's folder to a folder with another name, and returns its path. */
  copy(name: string): string {
    const path = join(directory, name);
    cpSync(this.path, path, { recursive: true });
    return path;
  },
};

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-gpt-train-'));
  data = await prepareCorpus(directory);
  const saves = ['--save', whole.path, '--save-interval', '6', '--save-hf', whole.huggingFace];
  const run = await train([...saves, '--metrics-jsonl', whole.metrics]);
  expect(run.code, run.output).toBe(0);
  whole.output = run.output;
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/**
 * Trains the first steps of a preset and compares the losses with a file of `fixtures`, which native kernels
 * made. Returns the output of the run.
 */
async function expectGoldenLosses(name: string, flags: readonly string[]): Promise<string> {
  const golden = JSON.parse(readFileSync(new URL(`../fixtures/${name}.json`, import.meta.url), 'utf8')) as {
    lmLosses: number[];
  };
  const metrics = join(directory, `${name}.jsonl`);
  const steps = String(golden.lmLosses.length);
  const saves = ['--save', join(directory, name), '--metrics-jsonl', metrics];
  const run = await runGptTrainHere({ flags: [...flags, '--exit-interval', steps, ...saves], directory });
  expect(run.code, run.output).toBe(0);
  const rows = readMetrics(metrics);
  expect(rows).toHaveLength(golden.lmLosses.length);
  for (const [step, { lm_loss }] of rows.entries()) {
    // other instruction sets and thread counts add up in another order; ten steps amplify rounding to about
    // 1e-6
    expect(Math.abs(lm_loss! - golden.lmLosses[step]!), `step ${step + 1}`).toBeLessThan(2e-5);
  }
  return run.output;
}

describe('presets', () => {
  it('start with golden losses: the default', async () => {
    expect(await expectGoldenLosses('golden-losses', [])).toContain('prepared 2,478,931 tokens');
    // takes seconds on two free cores, minutes on busy ones
  }, 600_000);

  it('start with golden losses: experts', { tags: ['whole'], timeout: 600_000 }, async () => {
    await expectGoldenLosses('golden-losses-of-experts', ['--preset', 'moe-3m']);
  });
});

describe('resuming', () => {
  it('continues bitwise: the same metrics, the same checkpoint bytes', async () => {
    const parts = join(directory, 'parts');
    await train(['--save', parts, '--metrics-jsonl', `${parts}.jsonl`, '--exit-interval', '5']);
    const resumed = await train([
      // a run that continues in its own folder also continues its file of --metrics-jsonl
      ...['--load', parts],
      // another schedule: the schedule of the checkpoint is used instead
      ...['--lr', '5e-3', '--lr-decay-style', 'linear', '--weight-decay', '0.5'],
      '--use-checkpoint-opt_param-scheduler',
    ]);
    expect(resumed.output).toContain('iteration 5');
    expect(resumed.output).toContain("--weight-decay 0.5 -> 0.01 (the checkpoint's)");
    const facts = (path: string) =>
      readMetrics(path).map(({ iteration, lm_loss, grad_norm, learning_rate, consumed_samples }) => ({
        iteration,
        lm_loss,
        grad_norm,
        learning_rate,
        consumed_samples,
      }));
    expect(facts(`${parts}.jsonl`)).toEqual(facts(whole.metrics));
    // every run writes its metrics in its folder, and a record of its starts
    expect(facts(join(parts, 'metrics.jsonl'))).toEqual(facts(whole.metrics));
    const { starts } = JSON.parse(readFileSync(join(parts, 'run.json'), 'utf8'));
    expect(starts).toMatchObject([
      { iteration: 0, threads: { count: 1 }, end: { reason: 'exit-interval', iteration: 5 } },
      { iteration: 5, command: expect.arrayContaining(['--load', parts]), end: { reason: 'done' } },
    ]);
    expect(starts[0].datasets).toMatchObject([{ idxBytes: expect.any(Number) }]);
    expect(checkpointBytes(join(parts, 'iter_0000012'))).toEqual(
      checkpointBytes(join(whole.path, 'iter_0000012')),
    );
  });

  it('saves and ends when its output is no longer read, as in `| head`', async () => {
    const save = join(directory, 'unread');
    const flags = recipeWith(['--train-iters', '100000', '--lr-decay-iters', '100000', '--save', save]);
    const [status, stderr] = await new Promise<[number | null, string]>((resolve) => {
      const child = spawn(process.execPath, [gptTrain, ...flags], { cwd: directory });
      onTestFinished(() => void child.kill('SIGKILL'));
      let [output, errors] = ['', ''];
      child.stderr.on('data', (text) => {
        errors += text;
      });
      child.stdout.on('data', (text) => {
        output += text;
        if (output.includes('iteration        2/')) child.stdout.destroy();
      });
      child.on('close', (code) => resolve([code, errors]));
    });
    expect(stderr).toBe('');
    // 128 + SIGPIPE, like any program that writes to a pipe without a reader
    expect(status).toBe(141);
    expect(readdirSync(save).filter((name) => name.startsWith('iter_'))).toHaveLength(1);
  });

  it('fails with one error when its output cannot be written', () => {
    const full = openSync('/dev/full', 'w');
    onTestFinished(() => closeSync(full));
    const child = spawnSync(process.execPath, [gptTrain, ...recipeWith([])], {
      cwd: directory,
      encoding: 'utf8',
      stdio: ['ignore', full, 'pipe'],
    });
    expect(child.stderr).toMatch(/^error\[MTL_OUTPUT\]: standard output cannot be written: ENOSPC/);
    expect(child.stderr).not.toContain('    at ');
    expect(child.status).toBe(1);
  });

  it.each(['SIGTERM' as const, ...inWholeRuns('SIGINT' as const, 'SIGHUP' as const)])(
    '%s saves after the running step, and the run goes on from there',
    async (signal) => {
      const save = join(directory, signal);
      let sent = false;
      const stopped = await runGptTrain({
        flags: recipeWith(['--train-iters', '100000', '--lr-decay-iters', '100000', '--save', save]),
        directory,
        onOutput: (output, kill) => {
          if (sent || !output.includes('iteration        3/')) return;
          sent = true;
          kill(signal);
        },
      });
      expect(stopped.code).toBe(0);
      expect(stopped.output).toContain(`stopped (${signal})`);
      const [checkpoint] = readdirSync(save).filter((name) => name.startsWith('iter_'));
      const iteration = Number(checkpoint!.slice('iter_'.length));
      const resumed = await train([
        ...[
          '--train-iters',
          String(iteration + 2),
          '--lr-decay-iters',
          '100000',
          '--save',
          save,
          '--load',
          save,
        ],
      ]);
      expect(resumed.output).toContain(`iteration ${iteration}`);
      expect(resumed.code).toBe(0);
    },
  );

  it('uses the newest whole checkpoint when the last one is torn, and says so', async () => {
    const save = whole.copy('torn');
    const last = join(save, 'iter_0000012');
    const shard = readdirSync(last).find((name) => name.endsWith('.safetensors'))!;
    truncateSync(join(last, shard), 1000);
    const run = await train(['--load', save, '--save', join(directory, 'torn-continued')]);
    expect(run.code).toBe(0);
    expect(run.output).toMatch(/iter_0000012.*/);
    expect(run.output).toContain('resuming from');
    expect(run.output).toContain('iteration 6');
  });
});

describe('fp16', () => {
  it('skips steps while the loss scale backs off from one that overflows, then learns', async () => {
    const metrics = join(directory, 'fp16.jsonl');
    const run = await train([
      ...['--fp16', '--initial-loss-scale', String(2 ** 32), '--hysteresis', '1', '--lr', '1e-2'],
      ...['--train-iters', '60', '--lr-decay-iters', '60'],
      ...['--save', join(directory, 'fp16'), '--metrics-jsonl', metrics],
    ]);
    expect(run.code).toBe(0);
    const steps = readMetrics(metrics);
    const isSkipped = steps.map(({ skipped }) => Boolean(skipped));
    const numSkipped = isSkipped.indexOf(false);
    // 2^32 times any gradient of this model is beyond 65,504, the largest fp16 number; 2^8 times is not
    expect(numSkipped).toBeGreaterThanOrEqual(1);
    expect(numSkipped).toBeLessThanOrEqual(24);
    // every skip halves the scale for the next step (gradients grow while a model learns, so another skip may
    // come later)
    const scales = steps.map(({ loss_scale }) => loss_scale!);
    expect(scales[0]).toBe(2 ** 32);
    isSkipped.slice(0, -1).forEach((skipped, step) => {
      expect(scales[step + 1], `step ${step + 2}`).toBe(skipped ? scales[step]! / 2 : scales[step]);
    });
    // skipped steps leave the weights alone: the loss of a uniform guess over 257 bytes, up to the initial
    // weights
    const losses = steps.map(({ lm_loss }) => lm_loss!);
    for (const loss of losses.slice(0, numSkipped + 1))
      expect(Math.abs(loss - Math.log(257))).toBeLessThan(0.1);
    expect(losses.at(-1)).toBeLessThan(Math.log(257) - 1);
  });
});

describe('Hugging Face directories', () => {
  it('are written after training and trained on from, tokenizer and architecture included', async () => {
    const directoryOfModel = whole.huggingFace;
    const metrics = `${directoryOfModel}.jsonl`;
    expect(whole.output).toContain(`wrote ${directoryOfModel}`);
    expect(existsSync(join(directoryOfModel, 'tokenizer.json'))).toBe(true);
    const save = `${directoryOfModel}-more`;
    const ofRun = [...data.slice(0, 2), '--micro-batch-size', '2', '--lr', '1e-3', '--eval-iters', '0'];
    const from = ['--load-hf', directoryOfModel, '--train-iters', '2', '--threads', '1', '--verbose'];
    const again = await runGptTrainHere({
      flags: [...from, ...ofRun, ...data.slice(2), '--save', save, '--metrics-jsonl', metrics],
      directory,
    });
    expect(again.output).toContain('loaded the weights of');
    expect(again.output).toMatch(/^ {4}num-layers +2 +Hugging Face directory /m);
    expect(again.code).toBe(0);
    expect(readMetrics(metrics)[0]!.lm_loss).toBeLessThan(5.3); // an untrained model has ln 257 = 5.55
    // continues from the checkpoint with the checkpoint's flags only
    const resumed = await runGptTrainHere({
      flags: ['--load', save, '--train-iters', '3', '--lr-decay-iters', '2', '--threads', '1', '--verbose'],
      directory,
    });
    expect(resumed.output).toMatch(/^ {4}lr +0\.001 +checkpoint .*-more\/iter_0000002$/m);
    expect(resumed.output).toContain('iteration        3/');
    expect(resumed.code).toBe(0);
    const other = await train([...from, '--num-layers', '1', '--save', `${save}-other`]);
    expect(other.output).toMatch(/error\[MTL_FLAG_CONFLICT\].*--num-layers 1 contradicts/);
    expect(other.code).toBe(2);
    const refused = await train(['--save-hf', directoryOfModel]);
    expect(refused.output).toMatch(/error\[MTL_HUGGING_FACE_EXISTS\]/);
    expect(refused.code).toBe(2);
  });
});

describe('wrong input ends with one coded error and status 2, before the first step', () => {
  const cases: ReadonlyArray<readonly [name: string, flags: () => string[], expected: RegExp]> = [
    ['an unknown flag', () => ['--num-layer', '2'], /error\[MTL_FLAG_UNKNOWN\].*num-layers/s],
    ['a value of the wrong type', () => ['--num-layers', 'two'], /error\[MTL_FLAG_VALUE\].*num-layers/s],
    ['heads that do not divide', () => ['--num-attention-heads', '5'], /error\[MTL_HEADS\].*4/s],
    ['a batch that does not divide', () => ['--global-batch-size', '3'], /error\[MTL_BATCH_SIZE\].*(2|4)/s],
    ['contradicting precisions', () => ['--bf16', '--fp16'], /error\[MTL_FLAG_CONFLICT\]/],
    [
      'a dataset that is not there',
      () => ['--data-path', 'nowhere'],
      /error\[MTL_DATA_INDEXED_DATASET\].*nowhere/s,
    ],
    ['a checkpoint that is not there', () => ['--load', 'nowhere'], /error\[MTL_CHECKPOINT_NONE\].*nowhere/s],
    ['a device that is not there', () => ['--device', 'cuda'], /error\[MTL_CUDA_\w+\].*remedy: /s],
  ];
  it.each(cases)('%s', async (_, flags, expected) => {
    const run = await train([...flags(), '--save', join(directory, 'wrong')]);
    expect(run.output).toMatch(expected);
    expect(run.output).not.toContain('    at ');
    expect(run.output).not.toContain('iteration        1/');
    expect(run.code).toBe(2);
    expect(existsSync(join(directory, 'wrong'))).toBe(false);
  });

  it('a truncated .bin, named with its size', async () => {
    const prefix = join(directory, 'short');
    for (const suffix of ['.bin', '.idx']) copyFileSync(`${data[1]}${suffix}`, `${prefix}${suffix}`);
    truncateSync(`${prefix}.bin`, 100);
    const run = await train(['--data-path', prefix]);
    expect(run.output).toMatch(/error\[MTL_DATA_INDEXED_DATASET\].*short/s);
    expect(run.code).toBe(2);
  });
});

describe('where a training run saves and what it loads is looked at before its first step', () => {
  const expectRefused = async (given: readonly string[], expected: RegExp) => {
    const run = await train(given);
    expect(run.output).toMatch(expected);
    expect(run.output).not.toContain('iteration        ');
    expect(run.code).toBe(2);
  };

  it('no other training run is overwritten, and a model is compared by its flags', async () => {
    const save = whole.path;
    await expectRefused(
      ['--save', save],
      /error\[MTL_CHECKPOINT_EXISTS\]: --save .*whole holds .*iter_0000012 .*remedy: .*--load/s,
    );
    await expectRefused(
      ['--load', save, '--num-layers', '3'],
      /error\[MTL_CHECKPOINT_MODEL\]: .*iter_0000012 holds a model of --num-layers 2, and this one has --num-layers 3/,
    );
    await expectRefused(
      ['--load', save, '--lr', '2e-3'],
      /error\[MTL_CHECKPOINT_SCHEDULE\]: .*--lr 0.001, and this run has --lr 0.002.*remedy: .*\n +\S.* --lr 2e-3 \S*.*--use-checkpoint-opt_param-scheduler\n/s,
    );
    // the same directory under another path continues the run
    const run = await train(['--save', save, '--load', `${save}/../whole`]);
    expect(run.output).toContain('12 iterations are done and --train-iters is 12: nothing is left to train');
    expect(run.code).toBe(0);
  });

  it('--finetune without --save leaves the directory of --load alone', async () => {
    const pretrained = whole.path;
    const state = () => [
      readdirSync(pretrained),
      readFileSync(join(pretrained, 'latest_checkpointed_iteration.txt'), 'utf8'),
    ];
    const before = state();
    const flags = ['--load', pretrained, '--finetune', '--keep-last', '1', '--train-iters', '1'];
    const tuned = await train(flags);
    expect(tuned.code).toBe(0);
    const [, save] = /saving to (runs\/gpt-\S+) /.exec(tuned.output)!;
    expect(readdirSync(join(directory, save!))).toContain('iter_0000001');
    expect(state()).toEqual(before);
    // the same directory for both would mix two runs
    await expectRefused([...flags, '--save', pretrained], /error\[MTL_CHECKPOINT_EXISTS\].*--finetune/s);
  });

  it('two runs do not save into one directory, and after a kill of the first the next one does', async () => {
    const save = join(directory, 'contended');
    const forever = ['--train-iters', '100000', '--lr-decay-iters', '100000', '--save', save];
    const killed = spawn(process.execPath, [gptTrain, ...recipeWith([...forever, '--save-interval', '1'])], {
      cwd: directory,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    onTestFinished(() => void killed.kill('SIGKILL'));
    await new Promise<void>((resolve, reject) => {
      let output = '';
      killed.stdout.on('data', (text) => {
        output += text;
        if (output.includes('iteration        2/')) resolve();
      });
      killed.on('exit', () => reject(new Error(output)));
    });
    await expectRefused(
      [...forever, '--load', save],
      /error\[MTL_CHECKPOINT_OWNED\]: .*contended is owned by a run under way, process \d+ .*remedy: /s,
    );
    const ended = new Promise((resolve) => killed.once('close', resolve));
    killed.removeAllListeners('exit').kill('SIGKILL');
    await ended;
    const run = await train([...forever, '--load', save, '--exit-interval', '1']);
    expect(run.output).toContain('resuming from');
    expect(run.code).toBe(0);
  });

  it('a file in place of the directory', async () => {
    writeFileSync(join(directory, 'a-file'), '');
    await expectRefused(
      ['--save', join(directory, 'a-file/run')],
      /error\[MTL_CHECKPOINT_DENIED\].*remedy.*--save/s,
    );
  });
});

describe('failures of a run end with status 1 and lose nothing', () => {
  it('a loss that is not a number', async () => {
    const save = whole.copy('diverged');
    const checkpoints = () => readdirSync(save).filter((name) => name.startsWith('iter_'));
    const before = checkpoints();
    const run = await train([
      ...['--load', save, '--save', save, '--lr', '1e30', '--clip-grad', '0', '--train-iters', '24'],
      ...['--lr-decay-iters', '24', '--override-opt_param-scheduler'],
    ]);
    expect(run.output).toMatch(/error\[MTL_NOT_FINITE\].*remedy/s);
    expect(run.code).toBe(1);
    expect(checkpoints()).toEqual(before);
  });

  it.for([
    { while: 'nothing is trained', flags: [] },
    { while: 'it trains on', flags: ['--async-save'] },
  ])('a full disk while saving, $while', async ({ flags }, context) => {
    const disk = mkdtempSync(join(directory, 'disk-'));
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=600k', 'tmpfs', disk], { stdio: 'ignore' });
    } catch {
      context.skip('mounting a small file system needs root');
    }
    try {
      const run = await train(['--save', join(disk, 'run'), '--save-interval', '4', ...flags]);
      expect(run.output).toMatch(/error\[MTL_CHECKPOINT_DISK_FULL\]/);
      expect(run.code).toBe(1);
    } finally {
      execFileSync('umount', [disk]);
    }
  });
});
