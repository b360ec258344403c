import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SingleProcessGroup } from '@mtl/comm';
import { runInMemoryRanks, runLocalRanks } from '@mtl/comm/testing';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { StepProfiler } from '../src/index.js';
import { type ChromeTrace, predictStep, readTrace, replayStep, simulateSchedule } from '../src/schedules.js';
import type askClock from './ranks/ask-clock.js';
import { type ChainCase, makeSchedule } from './ranks/run-affine-chain.js';
import type { WriteStepTraces } from './ranks/write-step-traces.js';
import { ofEveryChunk } from './support/of-every-chunk.js';

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-traces-'));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const numStages = 2;
const chainCase: ChainCase = { schedule: 'zb-v', numStages, numMicroBatches: 3, numReplicas: 1, size: 4 };
const trace = async (run: typeof runInMemoryRanks | typeof runLocalRanks, file: string): Promise<string> => {
  const argument: WriteStepTraces = { chainCase, passMs: 5, file: join(directory, file) };
  const threads = rankThreads(new URL('./ranks/write-step-traces.ts', import.meta.url));
  await run({ ...threads, worldSize: 2 * numStages, argument });
  return readFileSync(join(directory, file), 'utf8');
};

describe('a trace of two pipelines', () => {
  it.each([
    ['threads', runInMemoryRanks],
    ['processes', runLocalRanks],
  ] as const)('over %s holds every step of each', async (name, run) => {
    const pipelines = readTrace(await trace(run, `${name}.json`), { name });
    expect(pipelines.map(({ pipeline, steps }) => [pipeline, steps.length])).toEqual([
      [0, 2],
      [numStages, 2],
    ]);
    const schedule = makeSchedule(chainCase, chainCase.numMicroBatches);
    const times = ofEveryChunk(schedule, { forward: 5, backwardInput: 5, backwardWeight: 5 });
    const units = simulateSchedule({ schedule, times });
    for (const step of pipelines.flatMap(({ steps }) => steps)) {
      expect(step.schedule).toEqual({ ...schedule, name });
      expect(step.ranks.map(({ peak }) => peak)).toEqual(units.ranks.map(({ peak }) => peak));
      // each step leaves out a cost that the next one has: first unequal passes, then communication and the
      // time between passes
      const [predicted, replayed] = [predictStep(step), replayStep(step)];
      expect(predicted.makespan).toBeGreaterThanOrEqual(units.makespan - 0.1);
      expect(step.makespan).toBeGreaterThanOrEqual(replayed.makespan);
    }
  });

  it('has a row for each queue of communication, with what was posted before it was waited for', async () => {
    const { traceEvents } = JSON.parse(await trace(runLocalRanks, 'rows.json')) as ChromeTrace;
    const named = (name: string) => traceEvents.filter((event) => event.name === name);
    expect(named('process_name').map(({ args }) => args.name)).toEqual([
      ...['rank 0: stage 0 of pipeline 0', 'rank 1: stage 1 of pipeline 0'],
      ...['rank 2: stage 0 of pipeline 2', 'rank 3: stage 1 of pipeline 2'],
    ]);
    const rows = named('thread_name').filter(({ pid }) => pid === 0);
    expect(rows.map(({ args }) => args.name)).toEqual([
      ...['passes', 'pp: receive from 1', 'pp: send to 1', 'world: collectives'],
    ]);
    const categories = new Set(traceEvents.filter(({ ph }) => ph === 'X').map(({ cat }) => cat));
    const passes = ['F', 'I', 'W', 'wait', 'step', 'evaluation', 'optimizer'];
    const operations = ['send', 'receive', 'barrier'];
    expect([...categories].sort()).toEqual([...passes, ...operations].sort());
    for (const { ts, dur, args, cat } of traceEvents) {
      if (ts === undefined) continue;
      expect(ts).toBeGreaterThanOrEqual(0);
      expect(dur).toBeGreaterThanOrEqual(0);
      if (cat === 'receive') expect(args.posted).toBeLessThanOrEqual(args.waitedFrom as number);
    }
  });

  it.each([
    ['{', 'it is no JSON'],
    ['null', 'it is no trace of a training run'],
    ['{"traceEvents": [], "otherData": {}}', 'it is no trace of a training run'],
  ])('refuses %s', (text, message) => {
    expect(() => readTrace(text, { name: 'x.json' })).toThrow(
      expect.objectContaining({ code: 'MTL_TRACE', message: `x.json: ${message}` }),
    );
  });

  it('refuses a step that lacks a rank', async () => {
    const whole = JSON.parse(await trace(runInMemoryRanks, 'torn.json'));
    whole.traceEvents = whole.traceEvents.filter(
      ({ pid, cat }: { pid: number; cat?: string }) => pid !== 1 || cat === 'step',
    );
    expect(() => readTrace(JSON.stringify(whole), { name: 'x.json' })).toThrow(
      expect.objectContaining({ code: 'MTL_TRACE', message: expect.stringContaining('not one step') }),
    );
  });
});

describe('a profiler', () => {
  it.each([
    [3, 2],
    [1.5, 2],
  ])('of steps %d to %d is refused', (first, last) => {
    const options = { file: 'x', group: new SingleProcessGroup('world'), takeOperations: () => [] };
    expect(() => new StepProfiler({ ...options, first, last })).toThrow(
      expect.objectContaining({ code: 'MTL_PROFILE_STEPS' }),
    );
  });

  it('says so when operations are missing', async () => {
    const file = join(directory, 'incomplete.json');
    const profiler = new StepProfiler({
      file,
      first: 1,
      last: 1,
      group: new SingleProcessGroup('world'),
      takeOperations: () => Object.assign([], { numDropped: 3 }),
    });
    const warning = once(process, 'warning');
    profiler.beginStep(1);
    profiler.endStep(1);
    const [said] = await warning;
    expect(said).toMatchObject({ code: 'MTL_TRACE_INCOMPLETE' });
    expect(said.message).toContain('the first 3 of 3 operations of step 1 are missing');
  });

  it('says so when it cannot write, and leaves nothing', () => {
    mkdirSync(join(directory, 'taken'));
    for (const name of ['nowhere/x.json', 'taken']) {
      const profiler = new StepProfiler({
        file: join(directory, name),
        first: 1,
        last: 1,
        group: new SingleProcessGroup('world'),
        takeOperations: () => [],
      });
      profiler.beginStep(1);
      expect(() => profiler.endStep(1)).toThrow(expect.objectContaining({ code: 'MTL_TRACE_FILE' }));
    }
    expect(existsSync(join(directory, 'taken.new'))).toBe(false);
  });
});

describe('clocks that are not shared', () => {
  it('are off by what round trips say, within half of their time', async () => {
    const fastByNs = [0, 5e9, -3e6];
    const results = await runInMemoryRanks<ReturnType<typeof askClock>>({
      worldSize: 3,
      ...rankThreads(new URL('./ranks/ask-clock.ts', import.meta.url)),
      argument: fastByNs,
    });
    results.forEach(({ estimated, shared, tookNs }, rank) => {
      expect(shared).toBe(0);
      // sixteen round trips took `tookNs` in all, so the fastest took at most a sixteenth
      expect(Math.abs(estimated + fastByNs[rank]!)).toBeLessThanOrEqual(tookNs / 16 / 2 + 1);
    });
  });
});
