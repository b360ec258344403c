#!/usr/bin/env node
/**
 * npm run dev -- pretrained-against-scratch [OUTPUT_DIRECTORY] [--train-iters N] [--tasks qqp,squad]
 *   [--epochs N] [--seeds 1,2,3] [--lr X] [--scratch-lr X] [--threads N]
 *
 * Measures the benefit of pretraining. Pretrains a BERT on the bundled corpus, and makes small tasks from
 * this corpus in the formats of MNLI, QQP, RACE and SQuAD. Then fine-tunes for each task from the pretrained
 * weights and from initial weights, with the same settings. The exit status is 1 unless pretraining improves
 * the median score of every task by more than two standard errors. Weights and tasks that already exist in
 * the directory are used again. The protocol is in docs/benchmarks/bert.md. After shorter pretraining (2,000
 * steps with a million parameters), a BERT has learnt only the frequencies of words, not their order.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { defaultCorpusFiles } from '@mtl/runs/internal';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    'train-iters': { type: 'string', default: '20000' },
    tasks: { type: 'string', default: 'qqp,mnli,race,squad' },
    epochs: { type: 'string', default: '5' },
    seeds: { type: 'string', default: '1,2,3' },
    lr: { type: 'string', default: '3e-4' },
    // the learning rate for fine-tuning from initial weights; if undefined, --lr is used
    'scratch-lr': { type: 'string' },
    threads: { type: 'string', default: '2' },
  },
});
const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, '../../..');
const [output = join(root, 'runs/pretrained-against-scratch')] = positionals;
const directory = resolve(output);
const packages = join(root, 'packages');

/** Runs a program from its sources and returns its standard output. */
function run(program, words, cwd) {
  const node = ['--conditions=@mtl/source', '--import', '@mtl/tooling/typescript-loader'];
  const options = { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: 2 ** 28 };
  const { status, stdout } = spawnSync(process.execPath, [...node, program, ...words], options);
  if (status !== 0) process.exit(status ?? 1);
  return stdout;
}

const checkpoints = join(directory, 'bert');
if (!existsSync(checkpoints)) {
  // the flags that docs/benchmarks/bert.md specifies
  const flags = {
    'num-layers': '4',
    'hidden-size': '128',
    'num-attention-heads': '2',
    'layer-norm-placement': 'pre',
    'seq-length': '128',
    'max-position-embeddings': '128',
    'data-path': 'bundled',
    'eval-interval': '2000',
    'eval-iters': '32',
    'micro-batch-size': '16',
    'global-batch-size': '16',
    'attention-dropout': '0',
    'hidden-dropout': '0',
    'train-iters': values['train-iters'],
    lr: '2e-3',
    'min-lr': '1e-4',
    'lr-decay-style': 'linear',
    'lr-warmup-iters': '500',
    'adam-beta2': '0.98',
    'weight-decay': '0.01',
    split: '95,5,0',
    threads: values.threads,
    save: checkpoints,
    'log-interval': '500',
  };
  const words = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value]);
  // the program runs in the root of the checkout, which contains the prepared corpus
  run(join(root, 'apps/bert-train/src/main.ts'), words, root);
}

const tasks = join(directory, 'tasks');
if (!existsSync(tasks)) {
  run('scripts/write-corpus-tasks.mjs', [tasks, '7', ...defaultCorpusFiles()], join(packages, 'data'));
}

const folders = { mnli: 'MNLI', qqp: 'QQP', race: 'RACE', squad: 'SQuAD' };
const squad = ['--squad-version', '1.1', '--max-query-length', '64', '--doc-stride', '32'];
// the number of scored examples in each data set
const numExamples = 400;
/**
 * Returns twice the standard error of the difference between two scores, in percent. F1 is a mean of
 * fractions, so for F1 the result is an upper bound.
 */
const margin = (a, b) => {
  const variance = (percent) => ((percent / 100) * (1 - percent / 100)) / numExamples;
  return 200 * Math.sqrt(variance(a) + variance(b));
};
const show = ({ median, all }) => `${median.toFixed(2)} (${all.map((one) => one.toFixed(2)).join(', ')})`;
let isBetter = true;
for (const task of values.tasks.split(',')) {
  const words = [
    ...['finetune', '--task', task, '--data-dir', join(tasks, folders[task]), '--load', checkpoints],
    ...['--seq-length', '128', '--epochs', values.epochs, '--seeds', values.seeds],
    ...['--global-batch-size', '32', '--micro-batch-size', '16', '--threads', values.threads, '--json'],
    ...(task === 'squad' ? squad : []),
  ];
  const [pretrained, scratch] = [
    ['--lr', values.lr],
    ['--lr', values['scratch-lr'] ?? values.lr, '--from-scratch'],
  ].map((more) => {
    const { median, seeds } = JSON.parse(run('src/main.ts', [...words, ...more], join(packages, 'cli')));
    const [[set, scores]] = Object.entries(median);
    const name = task === 'squad' ? 'f1' : 'accuracy';
    return { set, name, median: scores[name], all: seeds.map(({ epochs }) => epochs.at(-1).sets[set][name]) };
  });
  const { set, name } = pretrained;
  const [better, needed] = [pretrained.median - scratch.median, margin(pretrained.median, scratch.median)];
  console.log(
    `${task}, ${set}, ${name}: pretrained ${show(pretrained)}, from scratch ${show(scratch)}; better by ` +
      `${better.toFixed(2)}, two standard errors are ${needed.toFixed(2)}`,
  );
  isBetter &&= better > needed;
}
process.exit(isBetter ? 0 : 1);
