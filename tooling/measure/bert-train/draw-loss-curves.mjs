import { scaleLinear } from 'd3-scale';
import { line } from 'd3-shape';

const panel = { width: 260, height: 200 };
const margin = { top: 44, right: 28, bottom: 40, left: 48 };
/** Colours that people with red-green colour blindness can also distinguish. */
const colours = { pre: '#0072b2', post: '#d55e00' };
const names = { pre: 'layer norm before sublayers', post: 'layer norm after sublayers' };

/**
 * A run of the study with its loss curve.
 *
 * @typedef {object} StudiedRun
 * @property {number} depth
 * @property {'pre' | 'post'} placement
 * @property {readonly { readonly step: number, readonly loss: number }[]} points
 */

/**
 * Draws loss curves as an SVG, with a panel for each depth, a line for each run, and a colour for each
 * position of layer norm. All panels have the same axes.
 *
 * @param {readonly StudiedRun[]} runs
 * @returns {string}
 */
export function drawLossCurves(runs) {
  const depths = [...new Set(runs.map(({ depth }) => depth))].sort((a, b) => a - b);
  const points = runs.flatMap((run) => run.points);
  const losses = points.map(({ loss }) => loss);
  const x = scaleLinear()
    .domain([0, Math.max(...points.map(({ step }) => step))])
    .range([0, panel.width]);
  const y = scaleLinear()
    .domain([Math.min(...losses), Math.max(...losses)])
    .nice()
    .range([panel.height, 0]);
  const width = margin.left + depths.length * (panel.width + margin.right);
  const height = margin.top + panel.height + margin.bottom;
  const panels = depths.map((depth, index) => {
    const at = `translate(${margin.left + index * (panel.width + margin.right)}, ${margin.top})`;
    const ofDepth = runs.filter((run) => run.depth === depth);
    return `<g transform="${at}">${axes({ x, y, isFirst: index === 0 })}${title(depth)}${ofDepth.map((run) => curve(run, { x, y })).join('')}</g>`;
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="11">`,
    '<title>Masked-LM loss by step, depth and place of the layer norm</title>',
    `<rect width="${width}" height="${height}" fill="white"/>`,
    legend(),
    ...panels,
    '</svg>',
    '',
  ].join('\n');
}

const title = (depth) =>
  `<text x="${panel.width / 2}" y="-8" text-anchor="middle" font-weight="bold">${depth} layers</text>`;

function legend() {
  const entries = Object.entries(names).map(([placement, name], index) => {
    const from = margin.left + index * 200;
    return `<line x1="${from}" x2="${from + 20}" y1="12" y2="12" stroke="${colours[placement]}" stroke-width="2"/><text x="${from + 26}" y="16">${name}</text>`;
  });
  return entries.join('');
}

function axes({ x, y, isFirst }) {
  const steps = x
    .ticks(4)
    .map(
      (tick) =>
        `<text x="${x(tick)}" y="${panel.height + 16}" text-anchor="middle">${x.tickFormat(4)(tick)}</text>`,
    );
  const losses = y.ticks(6).map((tick) => {
    const grid = `<line x2="${panel.width}" y1="${y(tick)}" y2="${y(tick)}" stroke="#ddd"/>`;
    const label = `<text x="-6" y="${y(tick) + 4}" text-anchor="end">${y.tickFormat(6)(tick)}</text>`;
    return isFirst ? grid + label : grid;
  });
  const xTitle = `<text x="${panel.width / 2}" y="${panel.height + 32}" text-anchor="middle">step</text>`;
  const yTitle = `<text transform="translate(-36, ${panel.height / 2}) rotate(-90)" text-anchor="middle">masked-LM loss</text>`;
  return [...losses, ...steps, xTitle, isFirst ? yTitle : ''].join('');
}

function curve({ placement, points }, { x, y }) {
  const path = line()
    .x(({ step }) => x(step))
    .y(({ loss }) => y(loss))(points);
  return `<path d="${path}" fill="none" stroke="${colours[placement]}" stroke-width="1.2" stroke-opacity="0.8"/>`;
}
