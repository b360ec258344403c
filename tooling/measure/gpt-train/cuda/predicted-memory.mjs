#!/usr/bin/env node
/**
 * Prints the memory that a dry run on device meta-cuda counts for each micro-batch size that bench-cuda.mjs
 * may try, as a Markdown table. The GPU's peaks, with which it can be compared, are in bench-cuda.json and in
 * the output of train-step.mjs as `peak_bytes`.
 *   node tooling/measure/gpt-train/cuda/predicted-memory.mjs [--presets gpt2-124m,gpt2-1.3b]
 */
import { parseArgs } from 'node:util';
import { dryRun } from '@mtl/planning';
import { comparedPresets, plans } from './plans.mjs';
import { benchmarkConfiguration } from './predict-step.mjs';

const { values } = parseArgs({
  options: { presets: { type: 'string', default: comparedPresets.join(',') } },
});
const gib = (bytes) => (bytes / 2 ** 30).toFixed(2);

const rows = [];
for (const preset of values.presets.split(',')) {
  for (const microBatch of plans[preset].microBatches) {
    const { ranks } = await dryRun(benchmarkConfiguration({ preset, microBatch }));
    const { memoryByKind, peakBytes } = ranks[0];
    const { parameters, gradients, optimizer, activations, temporary } = memoryByKind;
    const parts = [parameters + gradients + optimizer, activations, temporary, peakBytes].map(gib);
    rows.push([preset, microBatch, ...parts, peakBytes]);
  }
}
const header = [
  ...['model', 'micro-batch', 'parameters, gradients, optimizer, GiB'],
  ...['activations, GiB', 'temporary, GiB', 'total, GiB', 'total, bytes'],
];
for (const cells of [header, header.map(() => '---'), ...rows]) console.log(`| ${cells.join(' | ')} |`);
