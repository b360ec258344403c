#!/usr/bin/env node
/**
 * Measures weak scaling as in Shoeybi et al. 2019, table 1 and figure 5, on at most one rank for each core of
 * this machine. In one kind of row, the model grows with the ranks that share it: for 2, 4 and 8 ranks, the
 * hidden size grows by 1.25, 1.5 and 2 and the number of layers by 1.3, 1.6 and 1.8, with 96 features per
 * head. In the other kind, the batch grows with the ranks that have separate models. The result is the model
 * FLOP/s of a rank with one thread, divided by the FLOP/s of a single rank.
 *   npm run dev -- weak-scaling [--size weak|weak-tiny] [--dtype bfloat16] [--repeat 3] [--iters 4]
 *     [--log FILE]
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { runStep } from './run-step.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const { values } = parseArgs({
  options: {
    size: { type: 'string', default: 'weak' },
    dtype: { type: 'string', default: 'bfloat16' },
    repeat: { type: 'string', default: '3' },
    iters: { type: 'string', default: '4' },
    log: { type: 'string', default: join(here, '..', 'build', 'bench-weak-scaling.jsonl') },
  },
});
const samples = 2;
/**
 * `paper`: the paper's result on the same number of V100s or, for model and data parallelism, on 64 times
 * this number.
 */
const rows = [
  row('one rank', { paper: '100 %' }),
  row('model parallel: tp 2', { tp: 2, paper: '95 %' }),
  row('model parallel: tp 2, sequence parallel', { tp: 2, flags: ['--sequence-parallel'] }),
  row('model parallel: tp 4', { tp: 4, paper: '82 %' }),
  row('model parallel: tp 8', { tp: 8, paper: '77 %' }),
  row('model + data parallel: dp 2', { dp: 2, paper: '96 %' }),
  row('model + data parallel: dp 2, distributed optimizer', { dp: 2, flags: ['--sharding', 'optim'] }),
  row('model + data parallel: tp 2 x dp 2', { tp: 2, dp: 2, paper: '83 %' }),
  row('model + data parallel: tp 4 x dp 2', { tp: 4, dp: 2, paper: '79 %' }),
];

function row(name, { tp = 1, dp = 1, flags = [], paper = '' }) {
  return { name, ranks: tp * dp, model: tp, batch: dp, paper, flags: ['--tp', String(tp), ...flags] };
}

const numCores = availableParallelism();
const fitting = rows.filter(({ ranks }) => ranks <= numCores);
const log = [];

function run({ name, ranks, model, batch, flags }) {
  const what = ['--preset', `${values.size}-${model}`, '--dtype', values.dtype, '--threads', '1'];
  const size = ['--micro-batch', String(samples * batch), '--iters', values.iters, '--warmup', '1'];
  const line = runStep({ name, numProcesses: ranks, flags: [...what, ...size, ...flags] });
  log.push(line);
  return JSON.parse(line);
}

const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
const runs = new Map(fitting.map(({ name }) => [name, []]));
for (let turn = 0; turn < Number(values.repeat); turn++) {
  for (const each of fitting) runs.get(each.name).push(run(each));
}
const computeRate = ({ name, ranks }) => median(runs.get(name).map((one) => one.model_tflops)) / ranks;
console.log(
  `weak scaling, ${values.size}, ${values.dtype}, ${cpus()[0].model}, ${numCores} cores, medians of ${values.repeat} runs`,
);
console.log(`${''.padEnd(52)} ranks  parameters  TFLOP/s per rank  efficiency  the paper's`);
// sums in a different order are rounded differently (see packages/runs/parity/layouts.mjs)
const tolerance = values.dtype === 'float32' ? 2e-6 : 2e-3;
let isWrong = false;
for (const each of rows) {
  const [name, ranks] = [each.name.padEnd(52), String(each.ranks).padStart(5)];
  if (!fitting.includes(each)) {
    console.log(`${name} ${ranks}  more than this machine has cores: not timed`.padEnd(106) + each.paper);
    continue;
  }
  const [{ params, losses, vocabulary }] = runs.get(each.name);
  console.log(
    `${name} ${ranks} ${`${(params / 1e6).toFixed(0)} M`.padStart(11)} ${computeRate(each).toFixed(4).padStart(17)} ` +
      `${`${((100 * computeRate(each)) / computeRate(rows[0])).toFixed(0)} %`.padStart(11)}  ${each.paper}`,
  );
  // the same model on the same samples has the same loss. With small initial weights, this loss is within 5 %
  // of the loss of uniform guessing, because the variance of the logits, 0.02^2 x hidden size, adds half its
  // value to the loss
  const twin = fitting.find(({ model, batch }) => model === each.model && batch === each.batch);
  const difference = Math.abs(losses[0] / runs.get(twin.name)[0].losses[0] - 1);
  if (difference <= tolerance && Math.abs(losses[0] / Math.log(vocabulary) - 1) < 0.05) continue;
  isWrong = true;
  console.log(`  first loss ${losses[0]}, ${runs.get(twin.name)[0].losses[0]} with ${twin.name}`);
}
mkdirSync(dirname(values.log), { recursive: true });
writeFileSync(values.log, `${log.join('\n')}\n`);
process.exit(isWrong ? 1 : 0);
