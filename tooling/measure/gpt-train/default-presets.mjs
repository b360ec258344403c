#!/usr/bin/env node
/**
 * npm run dev -- preset-study [--out DIR] [--seeds 1,2,3,4,5] [--peer-python PYTHON]
 *
 * Compares the default preset with the previous default (gpt2-4m). The presets take turns. Each run has an
 * empty folder, so that its time includes training the tokenizer and tokenizing. Prints a row per run and
 * writes results.json. With --peer-python, also trains the character model in char_gpt_torch.py at three
 * learning rates, each for the training time of the previous default. Finished runs are not repeated. The
 * protocol is in docs/studies/default-presets.md.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { defaultCorpusFiles } from '@mtl/runs/internal';

const { values: options } = parseArgs({
  options: {
    out: { type: 'string', default: join('runs', 'preset-study') },
    seeds: { type: 'string', default: '1,2,3,4,5' },
    'peer-python': { type: 'string' },
  },
});
const out = resolve(options.out);
const commands = fileURLToPath(new URL('../../../packages/cli/bin', import.meta.url));
const presets = ['gpt2-4m', 'default'];

const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];

/** Returns the text files of the corpus that are in the validation part of --split 95,5,0. */
function validationFiles() {
  const files = defaultCorpusFiles();
  return files.slice(Math.round(0.95 * files.length));
}
const validationBytes = validationFiles().reduce((total, file) => total + statSync(file).size, 0);

function run(command, argv, cwd) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(commands, command), ...argv], {
    cwd,
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  });
  if (status !== 0) throw new Error(`${command} ${argv.join(' ')} ended with ${status}:\n${stdout}${stderr}`);
  return stdout;
}

/** Trains a preset in an empty folder. Resolves to the run's time and quality. */
function train(preset, seed) {
  const place = join(out, `${preset}-seed-${seed}`);
  const result = join(place, 'result.json');
  if (existsSync(result)) return JSON.parse(readFileSync(result, 'utf8'));
  rmSync(place, { recursive: true, force: true });
  mkdirSync(place, { recursive: true });
  const begun = performance.now();
  const argv = ['--preset', preset, '--seed', String(seed), '--save', 'run'];
  const output = run('gpt-train.mjs', argv, place);
  const wallSeconds = (performance.now() - begun) / 1000;
  writeFileSync(join(place, 'output.txt'), output);
  const records = readFileSync(join(place, 'run', 'metrics.jsonl'), 'utf8')
    .trim()
    .split('\n');
  const metrics = records.map((line) => JSON.parse(line));
  const stepSeconds = metrics.reduce((total, { step_ms = 0 }) => total + step_ms, 0) / 1000;
  const evaluation = metrics.findLast(({ type }) => type === 'validation');
  const measured = { preset, seed, wallSeconds, stepSeconds, ...measureQuality(place, evaluation) };
  writeFileSync(result, `${JSON.stringify(measured, undefined, 2)}\n`);
  return measured;
}

/** Returns the quality over the whole validation text. Evaluations during training read only its start. */
function measureQuality(place, evaluation) {
  const argv = ['eval', '--load', 'run', '--part', 'valid', '--json', '--micro-batch-size', '8'];
  const { total } = JSON.parse(run('mtl.mjs', argv, place));
  return {
    bitsPerByte: total.negativeLogLikelihood / Math.LN2 / validationBytes,
    validationLoss: evaluation.lm_loss,
    numScored: total.numScored,
  };
}

/** Trains the character model with the given learning rate, for the given seconds of steps. */
function trainPeer(lr, seconds) {
  const files = defaultCorpusFiles();
  const place = join(out, 'characters');
  mkdirSync(place, { recursive: true });
  const readText = (part) => part.map((file) => readFileSync(file, 'utf8')).join('');
  writeFileSync(join(place, 'valid.txt'), readText(validationFiles()));
  writeFileSync(join(place, 'train.txt'), readText(files.slice(0, Math.round(0.95 * files.length))));
  const script = fileURLToPath(new URL('char_gpt_torch.py', import.meta.url));
  const argv = [script, '--train', 'train.txt', '--valid', 'valid.txt', '--seconds', seconds, '--lr', lr];
  const python = resolve(options['peer-python']);
  const { status, stdout, stderr } = spawnSync(python, argv.map(String), { cwd: place, encoding: 'utf8' });
  if (status !== 0) throw new Error(`char_gpt_torch.py ended with ${status}:\n${stderr}`);
  return JSON.parse(stdout);
}

mkdirSync(out, { recursive: true });
const results = { runs: [], peer: [] };
for (const seed of options.seeds.split(',')) {
  for (const preset of presets) {
    const measured = train(preset, seed);
    results.runs.push(measured);
    console.log(JSON.stringify(measured));
  }
}
for (const preset of presets) {
  const of = results.runs.filter((one) => one.preset === preset);
  const [seconds, bits] = ['wallSeconds', 'bitsPerByte'].map((key) => median(of.map((one) => one[key])));
  console.log(`${preset}: medians ${seconds.toFixed(1)} s, ${bits.toFixed(4)} bits per byte`);
}
if (options['peer-python'] !== undefined) {
  const former = results.runs.filter((one) => one.preset === presets[0]);
  const seconds = Math.round(median(former.map((one) => one.wallSeconds)));
  for (const lr of [1e-3, 2e-3, 4e-3]) {
    const measured = trainPeer(lr, seconds);
    results.peer.push(measured);
    console.log(JSON.stringify(measured));
  }
}
writeFileSync(join(out, 'results.json'), `${JSON.stringify(results, undefined, 2)}\n`);
console.log(`written: ${join(out, 'results.json')}`);
