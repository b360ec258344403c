import { goals } from './plans.mjs';

const number = (value, digits) =>
  value === null || value === undefined || !Number.isFinite(value) ? '-' : value.toFixed(digits);
const percent = (share) => (share === undefined ? '-' : `${number(100 * share, 1)} %`);
const mark = (row, name) => (row.checks.find((one) => one.name === name)?.reached ? '' : ' (missed)');

/**
 * Returns the rows that `judge` returned as a Markdown table, with an explanation of the columns.
 * `peakTflops`: the same value as in the call of `judge`.
 */
export function formatTable(rows, peakTflops) {
  const header = [
    ...['model', 'ours, tokens/s', 'micro-batch', 'PyTorch, tokens/s', 'micro-batch', 'ratio'],
    ...[
      'TFLOP/s',
      `of ${peakTflops ?? 'an unknown peak'}`,
      'attention halved',
      'memory ratio',
      'at micro-batch',
      'host',
      'predicted',
    ],
  ];
  const lines = rows.map((row) => [
    row.preset,
    row.ours ? number(row.ours.tokens_per_s, 0) : 'does not fit or failed',
    row.ours?.micro_batch ?? '-',
    row.theirs ? number(row.theirs.tokens_per_s, 0) : 'not run, does not fit or failed',
    `${row.theirs?.micro_batch ?? '-'}${row.theirs?.not_compiled ? ' (not compiled)' : ''}`,
    `${number(row.speed, 2)}${mark(row, 'speed')}`,
    number(row.ours?.tflops, 1),
    `${percent(row.ours?.peak_share)}${row.checks.some(({ name }) => name === 'share of peak') ? mark(row, 'share of peak') : ''}`,
    percent(row.ours?.peak_share_halved),
    `${number(row.memory, 2)}${mark(row, 'memory')}`,
    row.same_micro_batch ?? '-',
    `${percent(row.host ?? undefined)}${mark(row, 'host')}`,
    row.predicted ? `${number(row.predicted.step_ms / row.ours.step_ms, 2)}${mark(row, 'prediction')}` : '-',
  ]);
  const line = (cells) => `| ${cells.join(' | ')} |`;
  return [
    line(header),
    line(header.map(() => '---')),
    ...lines.map(line),
    '',
    'Each side at its best micro-batch, median steps. TFLOP/s: model FLOPs with attention in full, then with the half that a ' +
      'causal mask leaves. Memory: peak of what the allocators have given out, ours to PyTorch’s, at the same micro-batch. ' +
      `Host: its share of a step; beyond ${100 * goals.host} % the GPU has waited for it. ` +
      'Predicted: the step of mtl plan, with the rates that mtl calibrate measured on the same GPU, to the measured step. ' +
      `Goals: ratio ${goals.speed}, memory ${goals.memory}.`,
  ].join('\n');
}
