import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buildSchedule, mergeTraces, simulateSchedule } from '@mtl/pipeline/schedules';
import { afterAll, describe, expect, it } from 'vitest';
import { runMtlIn } from './support/run-mtl-in.js';
import { filesUnder, temporaryDirectory } from './support/temporary-directory.js';

const directory = temporaryDirectory();
afterAll(() => directory.dispose());
const mtl = (...argv: string[]) => runMtlIn(['schedule', ...argv], { cwd: directory.path });
const size = (stages: number, microBatches: number): string[] => {
  return ['--stages', `${stages}`, '--micro-batches', `${microBatches}`];
};

describe('mtl schedule', () => {
  it('prints timeline, bubble and memory, and writes nothing', async () => {
    const { status, stdout, stderr } = await mtl('--pipeline-schedule', '1f1b', ...size(2, 3));
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout).toContain('rank 0  F0 F1 ......B0--- F2 B1--- ...B2---');
    expect(stdout).toContain('step 12, bubble 33.3 % of the work\npeak activations 2, on rank 0\n');
    expect(filesUnder(directory.path)).toEqual({});
  });

  it('writes picture, trace and file, and reads the file again to the same result', async () => {
    const flags = [
      ...size(2, 4),
      '--chunks',
      '2',
      '--svg',
      'a.svg',
      '--chrome-trace',
      'a.json',
      '--csv',
      'a.csv',
    ];
    const written = await mtl('--pipeline-schedule', 'interleaved', ...flags, '--json');
    expect(written.stderr).toBe('');
    const result = JSON.parse(written.stdout);
    // Times count for a stage, so the makespan does too: (m + (p-1)/v) 3.
    expect(result).toMatchObject({
      schedule: 'interleaved',
      makespan: 13.5,
      bubbleFraction: 0.125,
      barrier: true,
    });
    const read = (name: string): string => readFileSync(join(directory.path, name), 'utf8');
    expect(read('a.svg')).toContain(
      'bubble 12.5 % of the work; peak activations 5 chunks = 2.5 micro-batches',
    );
    const { traceEvents } = JSON.parse(read('a.json'));
    expect(traceEvents.filter(({ ph }: { ph: string }) => ph === 'X')).toHaveLength(2 * 2 * 4 * 2);
    const again = await mtl('--pipeline-schedule', 'a.csv', '--json');
    expect(JSON.parse(again.stdout)).toEqual({ ...result, schedule: 'a.csv' });
  });

  it('knows chunks by the name of the training flag, and counts as simulateSchedule does', async () => {
    const words = ['--pipeline-schedule', 'interleaved', ...size(4, 8), '--json'];
    const flag = '--num-virtual-stages-per-pipeline-rank';
    const { stdout, stderr } = await mtl(...words, flag, '2');
    expect(stderr).toBe('');
    const schedule = buildSchedule('interleaved', { numStages: 4, numMicroBatches: 8, numChunks: 2 });
    expect(JSON.parse(stdout).makespan).toBe(28.5);
    expect(simulateSchedule({ schedule }).makespan).toBe(28.5);
    expect(await mtl(...words, flag, '2', '--chunks', '3')).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('error[MTL_FLAG_CONFLICT]: --chunks 3 and'),
    });
  });

  it('simulates what a function makes, and writes it as a file', async () => {
    const source = `export default ({ numStages, numMicroBatches }) => {
      const all = (kind, chunk) =>
        Array.from({ length: numMicroBatches }, (_, microBatch) => ({ kind, chunk, microBatch }));
      const placement = Array.from({ length: numStages }, (_, stage) => stage);
      const actions = placement.map((chunk) => [...all('F', chunk), ...all('B', chunk)]);
      return { numMicroBatches, placement, actions };
    };`;
    writeFileSync(join(directory.path, 'own.mjs'), source);
    const flags = ['--pipeline-schedule', 'own.mjs', ...size(2, 3), '--csv', 'made.csv', '--json'];
    const { status, stdout, stderr } = await mtl(...flags);
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    // of 2 stages and 3 micro-batches: (m + p - 1) 3
    expect(JSON.parse(stdout)).toMatchObject({ schedule: 'own.mjs', stages: 2, makespan: 12 });
    expect(readFileSync(join(directory.path, 'made.csv'), 'utf8')).toBe(
      '0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1F1,1F2,1B0,1B1,1B2\n',
    );
    expect(await mtl('--pipeline-schedule', 'own.mjs', ...size(2, 3), '--chunks', '2')).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('error[MTL_SCHEDULE_MODULE]: own.mjs made 2 chunks'),
    });
  });

  it('takes times for all, by stage and by chunk, and leaves the barrier out when told', async () => {
    const measureBusy = async (...flags: string[]): Promise<number[]> => {
      const { stdout } = await mtl('--pipeline-schedule', 'zb-v', ...size(2, 3), ...flags, '--json');
      return JSON.parse(stdout).ranks.map(({ busy }: { busy: number }) => busy);
    };
    expect(await measureBusy('--forward-time', '2', '--optimizer-time', '1')).toEqual([13, 13]);
    expect(await measureBusy('--forward-time', '2,4')).toEqual([12, 18]);
    // Rank 0 has the first and the last chunk, rank 1 the two between.
    expect(await measureBusy('--forward-time', '1,2,3,5')).toEqual([24, 21]);
    const free = await mtl('--pipeline-schedule', 'zb-v', ...size(2, 3), '--no-barrier', '--json');
    expect(JSON.parse(free.stdout)).toMatchObject({ bubbleFraction: 0, barrier: false });
  });

  it('a more expensive head shows, and one sweep of backward can be cheaper than two halves', async () => {
    const simulateStep = async (...flags: string[]): Promise<number> => {
      const { stdout } = await mtl('--pipeline-schedule', '1f1b', ...size(2, 4), ...flags, '--json');
      return JSON.parse(stdout).stepTime;
    };
    expect(await simulateStep()).toBe(15);
    expect(await simulateStep('--backward-input-time', '1,2', '--backward-weight-time', '1,2')).toBe(23);
    expect(await simulateStep('--backward-time', '2,3')).toBe(19);
  });
});

describe('mtl schedule --compare', () => {
  /**
   * The actions of ranks that follow the simulator to the letter, a unit of time being ten milliseconds; but
   * the last pass begins one unit late, as if its input had been under way so long.
   */
  function writeTrace(file: string): void {
    const schedule = buildSchedule('1f1b', { numStages: 2, numMicroBatches: 3 });
    const { ranks, makespan } = simulateSchedule({ schedule });
    const traces = ranks.map(({ passes }, rank) => {
      const convertTime = (time: number): number => 1e9 + 1e7 * time;
      const spans = passes.map(({ action, start, end }) => {
        const late = end === makespan ? 1 : 0;
        return { ...action, startNs: convertTime(start + late), endNs: convertTime(end + late) };
      });
      const step = { kind: 'step', startNs: convertTime(0), endNs: convertTime(makespan + 1) } as const;
      return { rank, pipeline: 0, stage: rank, clockOffsetNs: 0, spans: [...spans, step], operations: [] };
    });
    writeFileSync(join(directory.path, file), JSON.stringify(mergeTraces(traces)));
  }

  it('compares a trace with the simulation of its own schedule and times', async () => {
    writeTrace('real.json');
    const { status, stdout, stderr } = await mtl('--compare', 'real.json', '--svg', 'both.svg');
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout).toContain('measured: pipeline 0, its only step; times in milliseconds');
    expect(stdout).toContain('times (step, busy, idle) in milliseconds');
    expect(stdout.split('\n').filter((line) => line.length > 100)).toEqual([]);
    expect(stdout).toContain('simulated  120.0 ms, bubble 33.3 % of the work');
    expect(stdout).toContain('replayed   120.0 ms, bubble 33.3 % of the work');
    expect(stdout).toContain('measured   130.0 ms, bubble 44.4 % of the work');
    const picture = readFileSync(join(directory.path, 'both.svg'), 'utf8');
    expect(picture).toContain('measured: real.json: 2 stages, 3 micro-batches');
    expect(picture).toContain('simulated: real.json: 2 stages, 3 micro-batches');
    const json = JSON.parse(
      (await mtl('--compare', 'real.json', '--communication-time', '1', '--json')).stdout,
    );
    expect(json.pipelines[0]).toMatchObject({ pipeline: 0, shownStep: 0, steps: [{ makespan: 130 }] });
    // the first and the last micro-batch each add one message forward and one back; messages of the others
    // are hidden
    expect(json.pipelines[0].simulated.makespan).toBeGreaterThan(120);
  });

  it('refuses flags that the trace contains, and a file that is no trace', async () => {
    writeTrace('real.json');
    writeFileSync(join(directory.path, 'other.json'), '{}');
    const both = await mtl('--compare', 'real.json', '--stages', '2');
    expect(both).toMatchObject({ status: 2, stderr: expect.stringContaining('MTL_FLAG_CONFLICT') });
    const other = await mtl('--compare', 'other.json');
    expect(other).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('error[MTL_TRACE]: other.json'),
    });
    const missing = await mtl('--compare', 'nowhere.json');
    expect(missing).toMatchObject({ status: 2, stderr: expect.stringContaining('MTL_SCHEDULE_FILE') });
  });
});
