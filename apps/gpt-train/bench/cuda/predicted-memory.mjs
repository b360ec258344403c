#!/usr/bin/env node
/**
 * What `mtl plan` predicts for each micro-batch that bench-cuda.mjs may try, as a table in Markdown: to hold
 * the GPU's peaks against, which are in bench-cuda.json and in train-step.mjs's lines as `peak_bytes`.
 *   node bench/cuda/predicted-memory.mjs [--presets gpt2-124m,gpt2-1.3b]
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { comparedPresets, plans } from './plans.mjs';

const mtl = fileURLToPath(new URL('../../../../packages/cli/bin/mtl.mjs', import.meta.url));
const { values } = parseArgs({
  options: { presets: { type: 'string', default: comparedPresets.join(',') } },
});
const gib = (bytes) => (bytes / 2 ** 30).toFixed(2);

/** What the benchmark trains: bfloat16, a micro-batch a step, no dropout, nothing recomputed. */
function predict(preset, microBatch) {
  const size = String(microBatch);
  const flags = [
    ...['--preset', preset, '--bf16', '--micro-batch-size', size, '--global-batch-size', size],
    ...['--hidden-dropout', '0', '--attention-dropout', '0'],
  ];
  const args = [mtl, 'plan', '--json', '--', ...flags];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`mtl plan ${flags.join(' ')}: ${stderr}`);
  return JSON.parse(stdout);
}

const rows = values.presets.split(',').flatMap((preset) =>
  plans[preset].microBatches.map((microBatch) => {
    const { parameters, gradients, optimizer, activations, temporary, total } = predict(preset, microBatch);
    const parts = [parameters + gradients + optimizer, activations, temporary, total].map(gib);
    return [preset, microBatch, ...parts, Math.round(total)];
  }),
);
const header = [
  ...['model', 'micro-batch', 'parameters, gradients, optimizer, GiB'],
  ...['activations, GiB', 'temporary, GiB', 'total, GiB', 'total, bytes'],
];
for (const cells of [header, header.map(() => '---'), ...rows]) console.log(`| ${cells.join(' | ')} |`);
