#!/usr/bin/env node
/**
 * Draws passes of two ranks that run the same operations, as SVG: time goes down, what spans both ranks is a
 * collective. Reads JSON from standard input: [{ title, events }], where an event is
 * { collective, bytes } or { operation, output, weight }, with shapes as lists.
 *   node tooling/guides/draw-passes.mjs < layer.json > layer.svg
 */
import { readFileSync } from 'node:fs';

const words = {
  layer_norm_forward: 'layer norm',
  attention_forward: 'attention',
  linear_gelu_forward: 'matmul, GELU',
  bias_dropout_residual_forward: 'bias, residual sum',
  allReduce: 'all-reduce',
  allGather: 'all-gather',
  reduceScatter: 'reduce-scatter',
};
/** Of operations on shards of heads or features, of those between the tensor-parallel regions, of collectives. */
const colours = { inside: '#b9cdf8', between: '#d9dee8', collective: '#b4530f' };
const [margin, top, rowHeight, boxHeight, laneWidth, gap] = [10, 64, 34, 26, 215, 10];
const panelWidth = 2 * laneWidth + gap;

const text = (x, y, content, attributes = '') => `<text x="${x}" y="${y}" ${attributes}>${content}</text>`;
const box = (x, y, width, fill) =>
  `<rect x="${x}" y="${y}" width="${width}" height="${boxHeight}" rx="5" fill="${fill}"/>`;

function drawEvent({ collective, bytes, operation, output, weight }, x, y) {
  const name = words[collective ?? operation] ?? operation;
  const baseline = y + 18;
  if (collective !== undefined) {
    const label = text(x + panelWidth / 2, baseline, `${name} of ${bytes} bytes`, 'fill="white"');
    return [box(x, y, panelWidth, colours.collective), label];
  }
  const isInside = weight !== undefined || operation === 'attention_forward';
  const label = weight === undefined ? `${name} [${output}]` : `${name} with [${weight}]`;
  return [x, x + laneWidth + gap].flatMap((left) => [
    box(left, y, laneWidth, isInside ? colours.inside : colours.between),
    text(left + laneWidth / 2, baseline, label),
  ]);
}

function drawPanel({ title, events }, x) {
  return [
    text(x + panelWidth / 2, 24, title, 'font-weight="bold"'),
    ...[0, 1].map((rank) => text(x + laneWidth / 2 + rank * (laneWidth + gap), 48, `rank ${rank}`)),
    ...events.flatMap((event, index) => drawEvent(event, x, top + index * rowHeight)),
  ];
}

const panels = JSON.parse(readFileSync(0, 'utf8'));
const width = panels.length * (panelWidth + 2 * margin);
const height = top + Math.max(...panels.map(({ events }) => events.length)) * rowHeight + margin;
const drawn = panels.flatMap((panel, index) => drawPanel(panel, margin + index * (panelWidth + 2 * margin)));
process.stdout.write(
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}"
font-family="sans-serif" font-size="13" text-anchor="middle" fill="#1c2333">
<rect width="100%" height="100%" fill="white"/>
${drawn.join('\n')}
</svg>
`,
);
