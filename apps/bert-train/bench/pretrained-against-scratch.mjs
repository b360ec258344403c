#!/usr/bin/env node
/**
 * Does pretraining pay? Pretrains a BERT on the corpus that comes along, makes small tasks of the same
 * formats as MNLI, QQP, RACE and SQuAD from that corpus, and fine-tunes for each of them from the pretrained
 * weights and from initial ones, all else equal:
 *   node bench/pretrained-against-scratch.mjs OUTPUT_DIRECTORY [--train-iters N] [--tasks qqp,squad]
 *     [--epochs N] [--seeds 1,2,3]
 * Run it after a build. Ends with exit status 1 where the median of a task's score is not better for the
 * pretrained one. Whoever shortens pretraining measures less of it: at 2,000 steps of a million parameters a
 * BERT has learnt how often words are, nothing of their order.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { defaultCorpusFiles } from '@mtl/recipes';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    'train-iters': { type: 'string', default: '20000' },
    tasks: { type: 'string', default: 'qqp,mnli,race,squad' },
    epochs: { type: 'string', default: '5' },
    seeds: { type: 'string', default: '1,2,3' },
    threads: { type: 'string', default: '2' },
  },
});
const [output] = positionals;
if (output === undefined) {
  console.error('usage: node bench/pretrained-against-scratch.mjs OUTPUT_DIRECTORY [flags]');
  process.exit(2);
}
const directory = resolve(output);
const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, '../../..');
const packages = join(root, 'packages');

/** Runs a program from its sources; what it prints on standard output. */
function run(program, words, cwd) {
  const node = ['--conditions=@mtl/source', '--import', '@mtl/tooling/typescript-loader'];
  const options = { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: 2 ** 28 };
  const { status, stdout } = spawnSync(process.execPath, [...node, program, ...words], options);
  if (status !== 0) process.exit(status ?? 1);
  return stdout;
}

const checkpoints = join(directory, 'bert');
if (!existsSync(checkpoints)) {
  const flags = {
    'num-layers': '4',
    'hidden-size': '128',
    'num-attention-heads': '2',
    'seq-length': '128',
    'micro-batch-size': '16',
    'global-batch-size': '16',
    'train-iters': values['train-iters'],
    lr: '2e-3',
    'lr-warmup-iters': '500',
    threads: values.threads,
    save: checkpoints,
    'log-interval': '500',
  };
  const words = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value]);
  // from the root, where the prepared corpus is kept
  run(join(here, '../src/main.ts'), words, root);
}

const tasks = join(directory, 'tasks');
if (!existsSync(tasks)) {
  run('scripts/write-corpus-tasks.mjs', [tasks, '7', ...defaultCorpusFiles()], join(packages, 'data'));
}

const folders = { mnli: 'MNLI', qqp: 'QQP', race: 'RACE', squad: 'SQuAD' };
const squad = ['--squad-version', '1.1', '--max-query-length', '64', '--doc-stride', '32'];
let isBetter = true;
for (const task of values.tasks.split(',')) {
  const words = [
    ...['finetune', '--task', task, '--data-dir', join(tasks, folders[task]), '--load', checkpoints],
    ...['--seq-length', '128', '--epochs', values.epochs, '--seeds', values.seeds, '--lr', '3e-4'],
    ...['--global-batch-size', '32', '--micro-batch-size', '16', '--threads', values.threads, '--json'],
    ...(task === 'squad' ? squad : []),
  ];
  const [pretrained, scratch] = [[], ['--from-scratch']].map((more) => {
    const { median, seeds } = JSON.parse(run('src/main.ts', [...words, ...more], join(packages, 'cli')));
    const [[set, scores]] = Object.entries(median);
    const name = 'f1' in scores && task === 'squad' ? 'f1' : 'accuracy';
    return { set, name, median: scores[name], all: seeds.map(({ epochs }) => epochs.at(-1).sets[set][name]) };
  });
  const show = ({ median, all }) => `${median.toFixed(2)} (${all.map((one) => one.toFixed(2)).join(', ')})`;
  const { set, name } = pretrained;
  console.log(`${task}, ${set}, ${name}: pretrained ${show(pretrained)}, from scratch ${show(scratch)}`);
  isBetter &&= pretrained.median > scratch.median;
}
process.exit(isBetter ? 0 : 1);
