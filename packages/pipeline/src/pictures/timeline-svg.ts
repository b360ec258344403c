import { chunkRounds, type PassKind } from '../schedules/pipeline-schedule.js';
import type { Simulation } from '../simulator/simulate-schedule.js';
import { describeSimulation, formatPercent, idleShare } from './describe-simulation.js';

type BoxKind = PassKind | 'optimizer';

const looks: Readonly<
  Record<BoxKind, { readonly colour: readonly [number, number, number]; readonly name: string }>
> = {
  F: { colour: [43, 92, 176], name: 'forward' },
  B: { colour: [38, 128, 66], name: 'backward' },
  I: { colour: [16, 122, 128], name: 'backward, input half' },
  W: { colour: [176, 92, 16], name: 'backward, weight half' },
  optimizer: { colour: [112, 72, 150], name: 'optimizer' },
};

const idleColour = '#dcdcdc';
/** Sizes and margins, in pixels. */
const [rowHeight, rowGap, top, right, fontSize] = [26, 5, 44, 170, 12];
/**
 * The smallest width of a box, and the largest width of the picture, in pixels. If they conflict, the
 * picture's width takes precedence.
 */
const [narrowestBox, widestPicture] = [22, 8000];

/** A picture without its frame. Sizes are in pixels. */
interface Drawing {
  readonly title: string;
  readonly caption: string;
  readonly width: number;
  readonly height: number;
  /** The SVG elements, for a frame of size `width` by `height`. */
  readonly content: string;
}

/**
 * Draws a simulated step as an SVG picture in the style of Narayanan et al. 2021, figures 3 and 4. It has a
 * row per rank, and a box with the micro-batch number per pass. Forward is blue, backward is green, a rank's
 * later chunks are lighter, and idle time is grey. The caption states the bubble and the memory.
 */
export function timelineSvg(simulation: Simulation): string {
  return svgDocument([drawTimeline(simulation, { scale: timeScale(simulation) })]);
}

/**
 * Draws a measured step above the simulated step, in the style of `timelineSvg`, with the same time scale.
 */
export function comparisonSvg({
  measured,
  simulated,
}: {
  readonly measured: Simulation;
  readonly simulated: Simulation;
}): string {
  const scale = Math.min(timeScale(measured), timeScale(simulated));
  return svgDocument([
    drawTimeline(measured, { scale, heading: 'measured' }),
    drawTimeline(simulated, { scale, heading: 'simulated' }),
  ]);
}

/** Returns the number of pixels per unit of time for a picture of only this step. */
function timeScale({ ranks, stepTime, optimizerTime }: Simulation): number {
  const endTime = Math.max(...ranks.map(({ stepStart }) => stepStart + stepTime));
  const lengths = ranks.flatMap(({ passes }) => passes.map(({ start, end }) => end - start));
  const shortest = Math.min(...[...lengths, optimizerTime].filter((length) => length > 0));
  return Math.min(narrowestBox / shortest, widestPicture / endTime);
}

/** Draws the picture of `timelineSvg`. `scale` is the number of pixels per unit of time. */
function drawTimeline(
  simulation: Simulation,
  { scale, heading }: { readonly scale: number; readonly heading?: string | undefined },
): Drawing {
  const { title: name, bubble, memory } = describeSimulation(simulation);
  const title = heading === undefined ? name : `${heading}: ${name}`;
  const caption = `${bubble}; ${memory}`;
  const { schedule, ranks, stepTime } = simulation;
  const rows = arrangeBoxes(simulation);
  const endTime = Math.max(...ranks.map(({ stepStart }) => stepStart + stepTime));
  const left = 24 + `rank ${ranks.length - 1}`.length * 7;
  const chart = { left, scale, width: endTime * scale, height: ranks.length * (rowHeight + rowGap) };
  const legend = listLegend(rows.flat(), Math.max(...chunkRounds(schedule)) + 1);
  const width = Math.ceil(
    Math.max(left + chart.width + right, left + 12 + 7 * Math.max(title.length, caption.length)),
  );
  const height = top + chart.height + 110;
  const parts = [
    text(title, { x: left, y: 24, size: 15, weight: 'bold' }),
    ...rows.flatMap((row, rank) => {
      const { stepStart } = ranks[rank]!;
      return drawRow(row, { ...chart, rank, idle: { x: left + stepStart * scale, width: stepTime * scale } });
    }),
    ...ranks.map((rank, index) => {
      const words = `idle ${formatPercent(idleShare(rank))}, peak ${rank.peak.numAlive}`;
      return text(words, { x: left + chart.width + 10, y: baseline(index) });
    }),
    drawTimeAxis({ ...chart, y: top + chart.height + 10 }),
    ...drawLegend(legend, { x: left, y: top + chart.height + 38 }),
    text(caption, { x: left, y: top + chart.height + 84 }),
  ];
  return { title, caption, width, height, content: parts.join('\n') };
}

interface Box {
  readonly kind: BoxKind;
  /** The chunk's index among the chunks of its rank. */
  readonly round: number;
  readonly label: string;
  /** The tooltip of the box. */
  readonly tip: string;
  readonly start: number;
  readonly end: number;
}

function arrangeBoxes({ schedule, ranks, optimizerTime }: Simulation): Box[][] {
  const rounds = chunkRounds(schedule);
  return ranks.map(({ passes, optimizerStart: start }) => {
    const boxes = passes.map(({ action, start, end }): Box => {
      const { kind, chunk, microBatch } = action;
      const tip = `${looks[kind].name}, micro-batch ${microBatch}, chunk ${chunk}`;
      return { kind, round: rounds[chunk]!, label: String(microBatch), tip, start, end };
    });
    const end = start + optimizerTime;
    boxes.push({ kind: 'optimizer', round: 0, label: 'opt', tip: 'optimizer', start, end });
    // a pass that takes no time would not be visible
    return boxes.filter((box) => box.end > box.start);
  });
}

interface Chart {
  readonly left: number;
  /** Pixels per unit of time. */
  readonly scale: number;
  readonly width: number;
}

interface RowChart extends Chart {
  readonly rank: number;
  /** The grey bar of the rank's step, behind the boxes, in pixels. */
  readonly idle: { readonly x: number; readonly width: number };
}

function drawRow(row: readonly Box[], chart: RowChart): string[] {
  const { left, scale, rank, idle } = chart;
  const y = top + rank * (rowHeight + rowGap);
  const parts = [
    text(`rank ${rank}`, { x: left - 10, y: baseline(rank), anchor: 'end' }),
    `<rect x="${round2(idle.x)}" y="${y}" width="${round2(idle.width)}" height="${rowHeight}" fill="${idleColour}"/>`,
  ];
  for (const { kind, round, label, tip, start, end } of row) {
    const x = left + start * scale;
    const boxWidth = (end - start) * scale;
    const { fill, ink } = mixPaint(kind, round);
    parts.push(
      `<rect x="${round2(x)}" y="${y}" width="${round2(boxWidth)}" height="${rowHeight}" fill="${fill}" stroke="#ffffff"><title>${tip}</title></rect>`,
    );
    // a letter is seven pixels wide; a label that does not fit is omitted, but the tooltip contains it
    if (boxWidth < 7 * label.length + 2) continue;
    parts.push(text(label, { x: x + boxWidth / 2, y: baseline(rank), anchor: 'middle', fill: ink }));
  }
  return parts;
}

/**
 * Returns the colours of a box. Later chunks are lighter, down to a third of the full colour. The text has a
 * contrasting colour.
 */
function mixPaint(kind: BoxKind, round: number): { readonly fill: string; readonly ink: string } {
  const strength = Math.max(1 / 3, 1 - 0.3 * round);
  const mixed = looks[kind].colour.map((part) => Math.round(255 - (255 - part) * strength));
  return { fill: `rgb(${mixed.join(',')})`, ink: round === 0 ? '#ffffff' : '#000000' };
}

interface LegendEntry {
  readonly name: string;
  readonly fill: string;
}

function listLegend(boxes: readonly Box[], numRounds: number): LegendEntry[] {
  const kinds = (Object.keys(looks) as BoxKind[]).filter((kind) => boxes.some((box) => box.kind === kind));
  const entries = kinds.flatMap((kind) => {
    const rounds =
      kind === 'optimizer' || numRounds === 1 ? [0] : Array.from({ length: numRounds }, (_, round) => round);
    return rounds.map((round) => {
      const chunk = rounds.length === 1 ? '' : ` ${'abcdefghijklmnopqrstuvwxyz'[round] ?? `:${round}`}`;
      return { name: `${looks[kind].name}${chunk}`, fill: mixPaint(kind, round).fill };
    });
  });
  return [...entries, { name: 'idle', fill: idleColour }];
}

function drawLegend(
  entries: readonly LegendEntry[],
  at: { readonly x: number; readonly y: number },
): string[] {
  let { x } = at;
  return entries.flatMap(({ name, fill }) => {
    const parts = [
      `<rect x="${x}" y="${at.y}" width="16" height="14" fill="${fill}"/>`,
      text(name, { x: x + 22, y: at.y + 11 }),
    ];
    x += 40 + 7 * name.length;
    return parts;
  });
}

function drawTimeAxis({
  left,
  width,
  y,
}: {
  readonly left: number;
  readonly width: number;
  readonly y: number;
}): string {
  const end = left + Math.min(width, 120);
  return [
    `<line x1="${left}" y1="${y}" x2="${end - 6}" y2="${y}" stroke="#404040"/>`,
    `<path d="M ${end - 8} ${y - 4} L ${end} ${y} L ${end - 8} ${y + 4} z" fill="#404040"/>`,
    text('time', { x: end + 6, y: y + 4 }),
  ].join('\n');
}

interface TextOptions {
  readonly x: number;
  readonly y: number;
  readonly size?: number;
  readonly weight?: 'normal' | 'bold';
  readonly anchor?: 'start' | 'middle' | 'end';
  readonly fill?: string;
}

function text(words: string, options: TextOptions): string {
  const { x, y, size = fontSize, weight = 'normal', anchor = 'start', fill = '#000000' } = options;
  return `<text x="${round2(x)}" y="${round2(y)}" font-size="${size}" font-weight="${weight}" text-anchor="${anchor}" fill="${fill}">${escapeXml(words)}</text>`;
}

/** Returns the y coordinate of a row's text baseline, in pixels. */
function baseline(rank: number): number {
  return top + rank * (rowHeight + rowGap) + rowHeight / 2 + 4;
}

function round2(value: number): number {
  return Number(value.toFixed(2));
}

/** Returns an SVG file with the drawings one below the other. */
function svgDocument(drawings: readonly Drawing[]): string {
  const width = Math.max(...drawings.map((drawing) => drawing.width));
  const height = drawings.reduce((sum, drawing) => sum + drawing.height, 0);
  let y = 0;
  const groups = drawings.map((drawing) => {
    const group = `<g transform="translate(0 ${y})">\n${drawing.content}\n</g>`;
    y += drawing.height;
    return group;
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" font-family="Helvetica, Arial, sans-serif">`,
    `<title>${escapeXml(drawings.map(({ title }) => title).join('; '))}</title>`,
    `<desc>${escapeXml(drawings.map(({ caption }) => caption).join('; '))}</desc>`,
    `<rect width="${width}" height="${height}" fill="#ffffff"/>`,
    ...(groups.length === 1 ? [drawings[0]!.content] : groups),
    '</svg>\n',
  ].join('\n');
}

/** Escapes text for XML. */
function escapeXml(words: string): string {
  const names: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
  // XML forbids control characters, even if they are escaped
  return [...words].map((c) => (c < ' ' ? ' ' : (names[c] ?? c))).join('');
}
