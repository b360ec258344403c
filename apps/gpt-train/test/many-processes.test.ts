import { randomUUID } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { glooProblem } from '@mtl/comm';
import { buildSchedule, readTrace } from '@mtl/pipeline/schedules';
import { commandPath } from '@mtl/tooling/command-path';
import { createNetworkHosts, networkHostsProblem } from '@mtl/tooling/network-hosts';
import { slurmProblem, startSlurm } from '@mtl/tooling/slurm-cluster';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Curve,
  countLines,
  everything,
  expectSameCurve,
  numSteps,
  readCurve,
  recipe,
  toTheEnd,
  undisturbedCurve,
} from './curves.js';
import { mtl, program, runLauncher, runRanks } from './run-ranks.js';

const onStages = ['--tensor-model-parallel-size', '2', '--pipeline-model-parallel-size', '2'];
const inPipelines = [...onStages, '--profile-steps', '12', '13'];

const launcherWords = {
  mpirun: ['mpirun', '--oversubscribe', '--bind-to', 'none', '-n', '2'],
  srun: ['srun', '--ntasks=2'],
};
const mpirunAsRoot = { OMPI_ALLOW_RUN_AS_ROOT: '1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1' };

// reason why tests on two hosts are skipped: they need network namespaces, and Debian's libgloo to connect
// them
const cannotPlayTwoHosts = glooProblem() !== undefined || networkHostsProblem() !== undefined;

describe('gpt-train on several processes', () => {
  let directory: string;
  let undisturbed: Curve;
  const metrics = (name: string): string => join(directory, `${name}.jsonl`);

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'mtl-ranks-'));
    undisturbed = await undisturbedCurve(directory);
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  it('changes its layout in the middle of a run and stays on the curve of one process', async () => {
    const phases = [
      { name: 'a', numProcesses: 4, until: 10, flags: everything },
      { name: 'b', numProcesses: 4, until: 15, flags: inPipelines },
      { name: 'd', numProcesses: 4, until: 20, flags: ['--tensor-model-parallel-size', '4'] },
      { name: 'c', numProcesses: 1, until: numSteps, flags: [] },
    ];
    const curve = new Map<number, { loss: number; norm: number }>();
    for (const { name, numProcesses, until, flags } of phases) {
      const place = ['--save', 'layouts', ...(name === 'a' ? [] : ['--load', 'layouts'])];
      const stop = until === numSteps ? [] : ['--exit-interval', String(until)];
      const all = [...recipe, ...toTheEnd, ...flags, ...place, ...stop, '--metrics-jsonl', metrics(name)];
      const { code, output } = await runRanks({ numProcesses, flags: all, directory });
      expect(output).not.toContain('error');
      expect(code).toBe(0);
      if (flags === inPipelines) {
        expect(output).toContain('profile of 2 steps');
        expect(output).toMatch(/^\[0\] waiting for other ranks +[1-9]\d*\.\d+ +\d/m);
      }
      for (const [iteration, step] of readCurve(metrics(name))) curve.set(iteration, step);
    }
    expectSameCurve(curve, undisturbed);
    // two data-parallel pipelines; both ran their step in the order of 1F1B
    const trace = readFileSync(join(directory, 'layouts/trace.json'), 'utf8');
    const traced = readTrace(trace, { name: 'trace.json' });
    expect(traced.map(({ pipeline, steps }) => [pipeline, steps.length])).toEqual([
      [0, 2],
      [1, 2],
    ]);
    const { traceEvents } = JSON.parse(trace);
    const kinds = new Set(traceEvents.map(({ cat }: { cat?: string }) => cat));
    const wanted = [...'FB', 'send', 'receive', 'wait', 'reduce', 'optimizer', 'step'];
    expect(wanted.filter((kind) => !kinds.has(kind))).toEqual([]);
    const inOrder = buildSchedule('1f1b', { numStages: 2, numMicroBatches: 8 });
    for (const { steps } of traced) {
      for (const { schedule } of steps) expect(schedule.actions).toEqual(inOrder.actions);
    }
    const { code, output } = await runLauncher(
      [process.execPath, mtl, 'schedule', '--compare', 'layouts/trace.json', '--svg', 'steps.svg'],
      { numProcesses: 1, directory },
    );
    expect(output).toContain('measured');
    expect(code).toBe(0);
    expect(existsSync(join(directory, 'steps.svg'))).toBe(true);
  }, 240_000);

  it.skipIf(cannotPlayTwoHosts).each([
    { between: 'data-parallel', flags: everything, sizes: 'tensor 2 x pipeline 1 x data 2' },
    { between: 'pipeline-parallel', flags: onStages, sizes: 'tensor 2 x pipeline 2 x data 1' },
  ])(
    'trains on two hosts, $between to each other, as on one, also when a rank is killed (libgloo-dev, iproute2, root)',
    async ({ between, flags: layout, sizes }) => {
      const name = `hosts-${between}`;
      const network = createNetworkHosts();
      let areOver = false;
      let killing = Promise.resolve();
      try {
        const variables = { MTL_JOB_SECRET: randomUUID(), MTL_SOCKET_INTERFACE: network.socketInterface };
        const flags = [...recipe, ...toTheEnd, ...layout, '--save', name, '--save-interval', '5'];
        const runs = [0, 1].map((host) =>
          runRanks({
            numProcesses: 2,
            maxRestarts: 1,
            flags: [...flags, '--metrics-jsonl', metrics(name)],
            directory,
            launcherFlags: [
              ...['--nnodes', '2', '--node-rank', String(host), '--master-addr', network.formatAddress(0)],
            ],
            prefix: network.choosePrefix(host),
            variables,
            ...(host === 0
              ? {}
              : {
                  onStart: (processIds) => {
                    killing = (async () => {
                      // kill between two checkpoints, so that some steps are repeated
                      while (countLines(metrics(name)) < 9 && !areOver) await sleep(5);
                      const victim = processIds().get(3);
                      if (victim !== undefined) process.kill(victim, 'SIGKILL');
                    })();
                  },
                }),
          }),
        );
        const [first, second] = await Promise.all(runs);
        areOver = true;
        await killing;
        expect(first!.output).toContain(`4 = ${sizes}`);
        expect(first!.output).toContain('ranks communicate over gloo+local');
        for (const { output, code } of [first!, second!]) {
          expect(output).toContain('warning[MTL_RESTART]: rank 3 ended with signal SIGKILL; restart 1 of 1');
          expect(code).toBe(0);
        }
      } finally {
        areOver = true;
        network.remove();
      }
      expectSameCurve(readCurve(metrics(name)), undisturbed);
    },
    180_000,
  );

  // these runs are shorter than the others, and are compared with the beginning of the curve of one process
  describe.each(['mpirun', 'srun'] as const)('started by %s', (launcher) => {
    const isMissing =
      launcher === 'srun' ? slurmProblem() !== undefined : commandPath(launcher) === undefined;
    it.skipIf(isMissing)(
      'trains as one process does (openmpi-bin; slurmctld, slurmd, slurm-client, munge)',
      async () => {
        const numShort = 6;
        const slurmDirectory = mkdtempSync(join(tmpdir(), 'mtl-slurm-'));
        const cluster = launcher === 'srun' ? await startSlurm(slurmDirectory, { numCpus: 2 }) : undefined;
        try {
          const flags = [...recipe, ...toTheEnd, ...everything, '--exit-interval', String(numShort)];
          const place = ['--save', launcher, '--metrics-jsonl', metrics(launcher)];
          const { code, output } = await runLauncher(
            [...launcherWords[launcher], process.execPath, program, ...flags, ...place],
            {
              numProcesses: 2,
              directory,
              variables: { MTL_JOB_SECRET: randomUUID(), ...mpirunAsRoot, ...cluster?.env },
            },
          );
          expect(output).toContain('2 = tensor 2 x pipeline 1 x data 1');
          expect(output).toContain('ranks communicate over local');
          expect(code).toBe(0);
        } finally {
          await cluster?.stop();
          rmSync(slurmDirectory, { recursive: true, force: true });
        }
        const beginning = new Map([...undisturbed].filter(([iteration]) => iteration <= numShort));
        expectSameCurve(readCurve(metrics(launcher)), beginning);
      },
    );
  });
});
