#!/usr/bin/env node
/**
 * Runs a guide's layer as rank 0 of two, on device `meta`, without and with sequence parallelism. Prints the
 * collectives of each pass, and draws the forward passes as layer.svg in the current folder. In the picture,
 * time increases downwards, and a box across both ranks is a collective.
 * tsx tooling/guides/draw-layer.mjs layer.ts
 * The module exports S, B, H and `layer({ tensorParallel, device })`, which returns forward(tape, input).
 */
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const module = resolve(process.argv[2]);
// packages are resolved relative to the layer's module, so that this program and the module use the same
// copies
const packageOfModule = (name) => import(pathToFileURL(createRequire(module).resolve(`@mtl/${name}`)).href);
const { Tape } = await packageOfModule('autograd');
const { MetaWorld } = await packageOfModule('comm');
const { observeOperations, Tensor } = await packageOfModule('kernels');
const { S, B, H, layer } = await import(pathToFileURL(module).href);

const words = {
  layer_norm_forward: 'layer norm',
  attention_forward: 'attention',
  linear_gelu_forward: 'matmul, GELU',
  bias_dropout_residual_forward: 'bias, residual sum',
  allReduce: 'all-reduce',
  allGather: 'all-gather',
  reduceScatter: 'reduce-scatter',
};
/**
 * The colours of operations on shards of heads or features (`inside`), of operations outside the
 * tensor-parallel regions (`between`), and of collectives.
 */
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

/** Returns the operations of rank 0 of two, in each pass. */
function trace(sequenceParallel) {
  const events = [];
  const onOperation = ({ operation, bytes }) => events.push({ collective: operation, bytes });
  const { group } = new MetaWorld({ rank: 0, size: 2, onOperation });
  const forward = layer({ tensorParallel: { group, sequenceParallel }, device: 'meta' });
  const shape = [sequenceParallel ? S / 2 : S, B, H];
  const rows = () => Tensor.empty({ shape, dtype: 'float32', device: 'meta' });
  const observe = (operation, { output, right, weight }) => {
    const matrix = right ?? (operation.startsWith('linear') ? weight : undefined);
    events.push({ operation, output: output?.shape, weight: matrix?.shape });
  };
  const tape = new Tape();
  const input = tape.input(rows(), { requiresGradient: true });
  const output = observeOperations(observe, () => forward(tape, input));
  const passes = { forward: events.splice(0), backward: events };
  observeOperations(observe, () => tape.backward(output, rows()));
  return passes;
}

const panels = [];
for (const [title, sequenceParallel] of [
  ['tensor parallelism', false],
  ['with sequence parallelism', true],
]) {
  const passes = trace(sequenceParallel);
  panels.push({ title, events: passes.forward });
  for (const [pass, events] of Object.entries(passes)) {
    const collectives = events.filter(({ collective }) => collective !== undefined);
    const texts = collectives.map(({ collective, bytes }) => `${collective} ${bytes}`);
    console.log(`${title}, ${pass}: ${texts.join(', ')}`);
  }
}
const width = panels.length * (panelWidth + 2 * margin);
const height = top + Math.max(...panels.map(({ events }) => events.length)) * rowHeight + margin;
const drawn = panels.flatMap((panel, index) => drawPanel(panel, margin + index * (panelWidth + 2 * margin)));
writeFileSync(
  'layer.svg',
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}"
font-family="sans-serif" font-size="13" text-anchor="middle" fill="#1c2333">
<title>The forward pass of a layer on two ranks</title>
<rect width="100%" height="100%" fill="white"/>
${drawn.join('\n')}
</svg>
`,
);
