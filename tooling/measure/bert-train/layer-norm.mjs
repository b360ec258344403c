#!/usr/bin/env node
/**
 * npm run dev -- layer-norm-study [--out DIR] [--depths 2,6,12,24] [--seeds 1,2,3] [--train-iters 1200]
 *   [--jobs 2] [-- FLAGS]
 *
 * Compares depths and placements of layer norm (Shoeybi et al. 2019, figure 7): trains a BERT for every
 * depth, placement and seed, and writes table.md, results.json and loss-curves.svg. Finished runs are not
 * repeated. The protocol is in docs/studies/layer-norm-placement.md.
 */
import { spawn } from 'node:child_process';
import { createWriteStream, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { drawLossCurves } from './draw-loss-curves.mjs';
import { runOutcome, smoothed } from './run-outcome.mjs';

const { values: options, positionals: moreFlags } = parseArgs({
  allowPositionals: true,
  options: {
    out: { type: 'string', default: join('runs', 'layer-norm-study') },
    depths: { type: 'string', default: '2,6,12,24' },
    seeds: { type: 'string', default: '1,2,3' },
    'train-iters': { type: 'string', default: '1200' },
    jobs: { type: 'string', default: '2' },
  },
});
const out = resolve(options.out);
const numSteps = Number(options['train-iters']);
const numbers = (list) => list.split(',').map(Number);
const root = fileURLToPath(new URL('../../..', import.meta.url));
const program = join(root, 'apps/bert-train/dist/main.js');

/** The flags of all runs. */
const recipe = [
  ...['--preset', 'bert-1m', '--hidden-size', '64', '--num-attention-heads', '4'],
  ...['--seq-length', '128'],
  ...['--micro-batch-size', '8', '--global-batch-size', '8', '--lr', '2e-3', '--lr-warmup-iters', '100'],
  ...['--lr-decay-style', 'linear', '--min-lr', '2e-4', '--clip-grad', '1', '--eval-iters', '0'],
  ...['--log-interval', '100', '--threads', '1'],
];

const cases = numbers(options.depths).flatMap((depth) =>
  ['pre', 'post'].flatMap((placement) => numbers(options.seeds).map((seed) => ({ depth, placement, seed }))),
);

/** Trains one case unless its results exist. If training ends with an error, the loss curve ends there. */
async function train({ depth, placement, seed }) {
  const place = join(out, `${placement}-${depth}-layers-seed-${seed}`);
  const ended = join(place, 'ended');
  const metrics = join(place, 'metrics.jsonl');
  if (!existsSync(ended)) {
    mkdirSync(place, { recursive: true });
    const argv = [
      ...[program, ...recipe, '--num-layers', String(depth), '--layer-norm-placement', placement],
      ...['--seed', String(seed), '--train-iters', String(numSteps)],
      ...['--save', join(place, 'checkpoints'), '--metrics-jsonl', metrics, ...moreFlags],
    ];
    writeFileSync(metrics, '');
    // removes the checkpoints of a study that was interrupted during this case
    rmSync(join(place, 'checkpoints'), { recursive: true, force: true });
    const status = await run(argv, createWriteStream(join(place, 'output.txt')));
    // status 1 means a loss that is not finite, which is a valid result; status 2 means a wrong flag
    if (status !== 0 && status !== 1) throw new Error(`${place}/output.txt says why status ${status}`);
    writeFileSync(ended, `${status}\n`);
  }
  const lines = readFileSync(metrics, 'utf8')
    .split('\n')
    .filter((line) => line !== '');
  const steps = lines.map((line) => JSON.parse(line)).filter(({ type }) => type === undefined);
  return steps.map((step) => step.lm_loss);
}

function run(argv, output) {
  return new Promise((done, failed) => {
    const child = spawn(process.execPath, argv, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
    const end = () => child.kill('SIGKILL');
    process.once('exit', end);
    child.stdout.pipe(output, { end: false });
    child.stderr.pipe(output, { end: false });
    child.on('error', failed);
    child.on('close', (status) => {
      process.off('exit', end);
      output.end();
      done(status);
    });
  });
}

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

/**
 * Returns a table with a row for each depth and position of layer norm. The row contains medians over the
 * seeds, and the number of runs that did not reach the end.
 */
function table(results) {
  const rows = numbers(options.depths).flatMap((depth) =>
    ['pre', 'post'].map((placement) => {
      const some = results.filter((each) => each.depth === depth && each.placement === placement);
      const last = some.map((each) => each.last);
      const worst = Math.max(...some.map(({ rise }) => rise));
      const broken = some.filter(({ isWhole }) => !isWhole).length;
      const all = last.map((loss) => loss.toFixed(3)).join(', ');
      return `| ${depth} | ${placement} | ${median(last).toFixed(3)} | ${all} | ${worst.toFixed(3)} | ${broken} |`;
    }),
  );
  return [
    '| layers | layer norm | last loss, median | of the seeds | largest rise | not finite |',
    '| --: | --- | --: | --- | --: | --: |',
    ...rows,
    '',
  ].join('\n');
}

for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));
const results = [];
const waiting = cases.values();
await Promise.all(
  Array.from({ length: Number(options.jobs) }, async () => {
    for (const each of waiting) {
      const losses = await train(each);
      const outcome = runOutcome({ losses, numSteps });
      console.log(
        `${each.depth} layers, ${each.placement}, seed ${each.seed}: ${outcome.last.toFixed(3)} after ${losses.length} steps`,
      );
      results.push({ ...each, ...outcome, points: smoothed(losses) });
    }
  }),
);
results.sort((a, b) => a.depth - b.depth || a.placement.localeCompare(b.placement) || a.seed - b.seed);
writeFileSync(join(out, 'results.json'), `${JSON.stringify(results)}\n`);
writeFileSync(join(out, 'table.md'), table(results));
writeFileSync(join(out, 'loss-curves.svg'), drawLossCurves(results));
console.log(`\n${table(results)}\nwrote table.md, results.json and loss-curves.svg into ${out}`);
