#!/usr/bin/env node
/**
 * Compares the passes of a small Qwen3-MoE with the passes of the same model with dense feed-forward
 * networks, which need the same FLOPs per token. The models take turns, and medians are printed. The
 * optimizer's time is printed separately, because it updates all experts. The exit status is 1 if the goal is
 * missed.
 *   npm run dev -- experts-against-dense [--dtype float32] [--threads 2] [--rounds 5] [--batch-size 8]
 *     [--seq-length 512]
 */
import { cpus, loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { setNumThreads } from '@mtl/kernels';
import { LlamaSide, models, randomStep } from './llama-side.mjs';

const { values } = parseArgs({
  options: {
    dtype: { type: 'string', default: 'float32' },
    threads: { type: 'string', default: '2' },
    rounds: { type: 'string', default: '5' },
    'batch-size': { type: 'string', default: '8' },
    'seq-length': { type: 'string', default: '512' },
  },
});
const goal = 1.25;
const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
const seconds = (value) => `${value.toFixed(3)} s`;

setNumThreads(Number(values.threads));
const names = ['qwen-moe', 'qwen-dense'];
const sides = names.map((name) => new LlamaSide({ dtype: values.dtype, loraRank: 0, model: models[name] }));
const runs = names.map(() => []);
for (let step = 0; step < 1 + Number(values.rounds); step++) {
  const { batch } = randomStep({
    step,
    batchSize: Number(values['batch-size']),
    sequenceLength: Number(values['seq-length']),
    vocabularySize: models['qwen-moe'].vocabularySize,
  });
  for (const [index, side] of sides.entries()) {
    const run = side.step(batch);
    if (step > 0) runs[index].push(run);
  }
}
const [passes, updates] = [(run) => run.passes, (run) => run.wall - run.passes].map((of) =>
  runs.map((all) => median(all.map(of))),
);
const ratio = passes[0] / passes[1];
console.log(
  `${cpus()[0].model}, ${values.threads} threads, load ${loadavg()[0].toFixed(1)}, ${values.dtype}`,
);
console.log(
  `passes: ${seconds(passes[0])} with experts, ${seconds(passes[1])} dense: x${ratio.toFixed(2)}, goal ${goal}`,
);
console.log(`optimizer: ${seconds(updates[0])} with experts, ${seconds(updates[1])} dense`);
for (const side of sides) side.dispose();
process.exitCode = ratio <= goal ? 0 : 1;
