import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Curve,
  countLines,
  everything,
  expectSameCurve,
  readCurve,
  recipe,
  toTheEnd,
  undisturbedCurve,
} from './curves.js';
import { runRanks } from './run-ranks.js';

// `npm run dev -- kills` sets it to 20
const numKills = Number(process.env.MTL_TEST_KILLS ?? 3);

describe('gpt-train on processes that fail', () => {
  let directory: string;
  let undisturbed: Curve;
  const metrics = (name: string): string => join(directory, `${name}.jsonl`);

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'mtl-ranks-'));
    undisturbed = await undisturbedCurve(directory);
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  it.each([
    { how: 'in every form of parallelism', numProcesses: 4, ways: everything },
    {
      how: 'with sharded parameters',
      numProcesses: 2,
      // kills also hit ranks that save in the background
      ways: ['--use-megatron-fsdp', '--async-save'],
    },
  ])(
    'goes on after ranks are killed, as if nothing had happened, $how',
    async ({ numProcesses, ways }) => {
      const iterations = ['--train-iters', String(10 * numKills), '--save-interval', '4'];
      const file = (name: string): string => metrics(`${name}-${numProcesses}`);
      const flagsOfRun = (name: string): string[] => [
        ...[...recipe, ...ways, ...iterations],
        ...['--save', `${name}-${numProcesses}`, '--metrics-jsonl', file(name)],
      ];
      const deadlineMs = 60_000 + 30_000 * numKills;
      const quiet = await runRanks({ numProcesses, flags: flagsOfRun('quiet'), directory, deadlineMs });
      expect(quiet.code).toBe(0);
      let numDone = 0;
      let isOver = false;
      let numAtStart = 0;
      const killAtMoments = async (processIds: () => ReadonlyMap<number, number>): Promise<void> => {
        let killed: ReadonlyMap<number, number> = new Map();
        while (numDone < numKills && !isOver) {
          const rank = (numDone * 7) % numProcesses;
          const isAtStart = numDone % 3 === 1;
          const seen = countLines(file('killed'));
          // the run makes progress between two kills, so that it ends; but every third kill hits ranks while
          // they start
          const isReady = (): boolean =>
            isAtStart
              ? ![undefined, killed.get(rank)].includes(processIds().get(rank))
              : countLines(file('killed')) >= seen + 2;
          while (!isReady() && !isOver) await sleep(isAtStart ? 20 : 5);
          await sleep(isAtStart ? (numDone * 131) % 700 : (numDone * 37) % 90);
          const processes = processIds();
          const victim = processes.get(rank);
          if (victim === undefined || isOver) continue;
          process.kill(victim, 'SIGKILL');
          // fewer lines than before: a restarted run has dropped the steps that it repeats
          if (countLines(file('killed')) <= seen) numAtStart += 1;
          killed = processes;
          numDone += 1;
        }
      };
      let killing = Promise.resolve();
      const { code, output } = await runRanks({
        numProcesses,
        flags: flagsOfRun('killed'),
        directory,
        maxRestarts: numKills,
        deadlineMs,
        onStart: (processIds) => {
          killing = killAtMoments(processIds);
        },
      });
      isOver = true;
      await killing;
      expect(output).toMatch(/rank \d .*SIGKILL/);
      expect(code).toBe(0);
      expect(numDone).toBe(numKills);
      expect(numAtStart).toBeGreaterThan(0);
      // the same layout resumes with the same bits
      expect(readCurve(file('killed'))).toEqual(readCurve(file('quiet')));
    },
    120_000 + 30_000 * numKills,
  );

  it.each([
    { signal: 'SIGKILL', what: 'is killed', says: /rank 3 ended with signal SIGKILL/ },
    // a stopped process sends nothing, which is noticed after 15 s
    { signal: 'SIGSTOP', what: 'hangs', says: /rank 3 .*has been silent for/ },
  ] as const)(
    'goes on in a pipeline after a stage $what, as if nothing had happened',
    async ({ signal, says }) => {
      const name = `stage-${signal}`;
      const staged = ['--pipeline-model-parallel-size', '2', '--pipeline-schedule', 'zb-h1'];
      const overlapping = ['--use-distributed-optimizer', '--overlap-grad-reduce', '--overlap-param-gather'];
      const flags = [...recipe, ...toTheEnd, ...staged, ...overlapping, '--save', name];
      let isOver = false;
      let hurting = Promise.resolve();
      const { code, output } = await runRanks({
        numProcesses: 4,
        flags: [...flags, '--save-interval', '5', '--async-save', '--metrics-jsonl', metrics(name)],
        directory,
        maxRestarts: 1,
        onStart: (processIds) => {
          hurting = (async () => {
            // kill between two checkpoints, so that some steps are repeated
            while (countLines(metrics(name)) < 9 && !isOver) await sleep(5);
            const victim = processIds().get(3);
            if (victim !== undefined && !isOver) process.kill(victim, signal);
          })();
        },
      });
      isOver = true;
      await hurting;
      expect(output).toContain('4 = tensor 1 x pipeline 2 x data 2');
      expect(output).toMatch(says);
      expect(output.match(/warning\[MTL_RESTART\].*restart 1 of 1/g)).toHaveLength(1);
      expect(code).toBe(0);
      expectSameCurve(readCurve(metrics(name)), undisturbed);
    },
    180_000,
  );
});
