import { describe, expect, it } from 'vitest';
import {
  buildSchedule,
  chromeTrace,
  formatTimeline,
  type SimulateOptions,
  scheduleNames,
  simulateSchedule,
  timelineLegend,
  timelineSvg,
} from '../schedules.js';

const simulate = (name: string, options: Omit<SimulateOptions, 'schedule'> = {}, numMicroBatches = 2) =>
  simulateSchedule({ schedule: buildSchedule(name, { numStages: 2, numMicroBatches }), ...options });

describe('formatTimeline', () => {
  it('puts equal times under each other', () => {
    expect(formatTimeline(simulate('1f1b'))).toBe(`1f1b: 2 stages, 2 micro-batches

rank 0  F0 F1 ......B0--- ...B1---
rank 1  ...F0 B0--- F1 B1--- ......

rank  busy  idle  idle %  peak
   0     6     3  33.3 %     2
   1     6     3  33.3 %     1

step 9, bubble 50 % of the work
peak activations 2, on rank 0
`);
  });

  it('names chunks and halves, counts both classes, leaves the time of other steps blank', () => {
    const ones = [1, 1, 1, 1]; // for each chunk
    const options = {
      times: { forward: ones, backwardInput: ones, backwardWeight: ones, optimizer: 1 },
      activations: { untilInput: 2, untilWeight: 0.5 },
      barrier: false,
    };
    expect(
      formatTimeline(simulate('zb-v', options, 3)),
    ).toBe(`zb-v: 2 stages, 3 micro-batches, 4 chunks (2 on each)

rank 0  F0a F1a F2a F0b I0b W0b F1b I1b W1b I0a W0a F2b I2b W2b I1a W1a I2a W2a opt
rank 1      F0a F0b F1a F1b I0b W0b F2a I0a W0a F2b I1b W1b I1a I2b I2a W1a W2b W2a opt

rank  busy  idle  idle %  peak  until I  until W  size
   0    19     0     0 %     4        4        1     8
   1    19     0     0 %     4        4        3     8

step 19, bubble 0 % of the work, no barrier before the optimizer
peak activations 4 chunks = 2 micro-batches of a stage, on rank 0
  up to 1 wait only for their weight half
`);
  });

  it('folds long lines at the width it is given', () => {
    const text = formatTimeline(simulate('gpipe', {}, 16), { width: 60 });
    const lines = text.split('\n').filter((line) => line.startsWith('rank 0  '));
    expect(lines.length).toBeGreaterThan(1);
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(60);
    const unfolded = formatTimeline(simulate('gpipe', {}, 16)).split('\n')[2]!;
    expect(
      lines
        .map((line) => line.slice(8).padEnd(52))
        .join('')
        .trimEnd(),
    ).toBe(unfolded.slice(8));
  });

  it('shows passes that take no time as nothing, and a head that takes long as long', () => {
    const text = formatTimeline(simulate('1f1b', { times: { forward: [1, 0], backward: [1, 3] } }));
    expect(text).toContain('rank 1  ...B0------ B1------ ...');
  });
});

describe('timelineLegend', () => {
  it('explains the labels and columns that a timeline has, and no others', () => {
    expect(timelineLegend(simulate('1f1b'), 'milliseconds')).toBe(`F forward, B backward, . idle
0, 1, 2 ... the micro-batch
times (step, busy, idle) in milliseconds; bubble: idle time of all ranks by their work
peak: most micro-batches whose activations a rank keeps at once
`);
    const activations = { untilInput: 2, untilWeight: 0.5 };
    const legend = timelineLegend(simulate('zb-v', { activations }, 3), 'seconds');
    expect(legend).toContain('I input half of backward, W weight half of backward, . idle\n');
    expect(legend).toContain('a, b ... the chunk of the rank');
    expect(legend).toContain('until I, until W: ');
    expect(legend).toContain('size: ');
    for (const line of legend.split('\n')) expect(line.length).toBeLessThanOrEqual(100);
  });
});

describe('timelineSvg', () => {
  /** Returns true if every element is closed in the right order, and every & starts a known entity. */
  const isWellFormed = (svg: string): boolean => {
    const open: string[] = [];
    for (const [, end, name, empty] of svg.matchAll(/<(\/?)([a-z]+)(?:\s[a-zA-Z-]+="[^"<]*")*(\s*\/?)>/g)) {
      if (end === '/' && open.pop() !== name) return false;
      if (end === '' && empty !== '/') open.push(name!);
    }
    const rest = svg.replaceAll(/<[^<>]*>/g, '');
    return open.length === 0 && !/[<>]|&(?!(amp|lt|gt|quot);)/.test(rest);
  };

  it.each(scheduleNames)('draws every pass of %s once, with bubble and memory', (name) => {
    const simulation = simulate(name, {}, 4);
    const svg = timelineSvg(simulation);
    expect(isWellFormed(svg)).toBe(true);
    const numPasses = simulation.schedule.actions.flat().length;
    expect(svg.match(/micro-batch \d+, chunk \d+<\/title>/g)).toHaveLength(numPasses);
    expect(svg).toMatch(/bubble [\d.]+ % of the work; peak activations \d+/);
  });

  it('places boxes by time: ends meet starts, and nothing leaves the chart', () => {
    const svg = timelineSvg(simulate('1f1b'));
    const boxes = [...svg.matchAll(/<rect x="([\d.]+)" y="(\d+)" width="([\d.]+)"[^>]*stroke/g)];
    const firstRow = boxes
      .filter(([, , y]) => y === '44')
      .map(([, x, , width]) => [Number(x), Number(width)]);
    // the expected row is `F0 F1 ..... B0 . B1`, measured from the first box, with 22 pixels for each unit of
    // time
    const left = firstRow[0]![0]!;
    expect(firstRow.map(([x, width]) => [(x! - left) / 22, width! / 22])).toEqual([
      [0, 1],
      [1, 1],
      [4, 2],
      [7, 2],
    ]);
    // there is a grey row for each rank, as wide as the step of 9 units
    expect(svg.match(/width="198" height="26" fill="#dcdcdc"/g)).toHaveLength(2);
  });

  it('escapes the name of a schedule', () => {
    const schedule = {
      ...buildSchedule('gpipe', { numStages: 2, numMicroBatches: 1 }),
      name: 'a<b>&"c"\u0007',
    };
    const svg = timelineSvg(simulateSchedule({ schedule }));
    expect(svg).toContain('a&lt;b&gt;&amp;&quot;c&quot;');
    expect(isWellFormed(svg)).toBe(true);
    expect(isWellFormed('<g><title>a & b</title></g>')).toBe(false);
    expect(isWellFormed('<g><text></g></text>')).toBe(false);
  });
});

describe('chromeTrace', () => {
  it('has an event for each pass, a thread for each rank, and counts what is alive', () => {
    const trace = chromeTrace(simulate('zb-h1', { times: { optimizer: 2 } }));
    const passes = trace.traceEvents.filter(({ ph, tid }) => ph === 'X' && tid === 1);
    expect(passes.map(({ name, cat, ts, dur }) => [name, cat, ts, dur])).toEqual([
      ['F0', 'F', 1000, 1000],
      ['I0', 'I', 2000, 1000],
      ['F1', 'F', 3000, 1000],
      ['I1', 'I', 4000, 1000],
      ['W0', 'W', 5000, 1000],
      ['W1', 'W', 6000, 1000],
      ['optimizer', 'optimizer', 7000, 2000],
    ]);
    expect(passes[1]!.args).toEqual({ chunk: 1, microBatch: 0 });
    const alive = trace.traceEvents.filter(({ ph, tid }) => ph === 'C' && tid === 1).map(({ args }) => args);
    expect(alive.at(0)).toEqual({ untilInput: 1, untilWeight: 0 });
    expect(alive.at(3)).toEqual({ untilInput: 0, untilWeight: 2 });
    expect(alive.at(-1)).toEqual({ untilInput: 0, untilWeight: 0 });
    const names = trace.traceEvents.filter(({ name }) => name === 'thread_name').map(({ args }) => args.name);
    expect(names).toEqual(['rank 0', 'rank 1']);
    expect(JSON.parse(JSON.stringify(trace))).toEqual(trace);
  });
});
