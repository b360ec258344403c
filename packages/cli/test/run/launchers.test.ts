import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { commandPath } from '@mtl/tooling/command-path';
import { freePort } from '@mtl/tooling/free-port';
import { type SlurmCluster, slurmProblem, startSlurm } from '@mtl/tooling/slurm-cluster';
import { workspaceFlags } from '@mtl/tooling/typescript-threads';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { printedRanks, rankProgram, startProcess } from '../support/start-process.js';
import { temporaryDirectory } from '../support/temporary-directory.js';
import { testDirectory } from '../support/test-directory.js';

const lacksOpenMpi = commandPath('mpirun') === undefined;
const lacksSlurm = slurmProblem() !== undefined;
const torchrun = process.env.MTL_TORCHRUN ?? commandPath('torchrun');

const secret = { MTL_JOB_SECRET: 'the secret of a test' };
const node = [process.execPath, ...workspaceFlags, rankProgram];
const expectedRanks = (count: number, launcher: string) =>
  Array.from({ length: count }, (_, rank) => ({
    rank,
    size: count,
    engine: 'local',
    sum: (count * (count + 1)) / 2,
    launcher,
    localRank: rank,
    nodeRank: 0,
  }));

describe('the same program under other launchers', () => {
  describe.skipIf(lacksOpenMpi)('mpirun of Open MPI (needs openmpi-bin)', () => {
    const env = { ...secret, OMPI_ALLOW_RUN_AS_ROOT: '1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1' };
    const mpirun = ['mpirun', '--oversubscribe', '--bind-to', 'none', '-n', '3'];

    it('finds its ranks', async () => {
      const { status, stdout, stderr } = await startProcess([...mpirun, ...node], env).finished;
      expect(stderr).toBe('');
      expect(printedRanks(stdout)).toMatchObject(expectedRanks(3, 'openmpi'));
      expect(status).toBe(0);
    });

    it('ends all when one fails', async () => {
      const { status } = await startProcess([...mpirun, ...node, 'exit', '2'], env).finished;
      expect(status).not.toBe(0);
    });

    it('asks for a secret', async () => {
      const { stderr } = await startProcess([...mpirun, ...node], { ...env, MTL_JOB_SECRET: undefined })
        .finished;
      expect(stderr).toContain('error[MTL_JOB_SECRET]');
    });
  });

  describe.skipIf(torchrun === undefined)('torchrun (needs PyTorch on PATH, or MTL_TORCHRUN)', () => {
    it.each(['--standalone', 'static'])('finds its ranks next to the agent: %s', async (mode) => {
      const where =
        mode === 'static' ? ['--master-addr=127.0.0.1', `--master-port=${await freePort()}`] : [mode];
      const words = [torchrun!, '--no-python', ...where, '--nproc-per-node=2', ...node];
      const { status, stdout } = await startProcess(words, secret).finished;
      expect(printedRanks(stdout)).toMatchObject(expectedRanks(2, 'torchrun'));
      expect(status).toBe(0);
    });

    it('starts again under --max-restarts', async () => {
      const words = [
        torchrun!,
        '--no-python',
        '--standalone',
        '--max-restarts=1',
        '--nproc-per-node=2',
        ...node,
      ];
      const { status, stdout } = await startProcess([...words, 'once', '1'], secret).finished;
      expect(printedRanks(stdout).filter(({ restartCount }) => restartCount === 1)).toHaveLength(2);
      expect(status).toBe(0);
    });
  });

  describe.skipIf(lacksSlurm)('srun of Slurm (needs slurmctld, slurmd, slurm-client and munge)', () => {
    const directory = temporaryDirectory();
    let cluster: SlurmCluster;
    beforeAll(async () => {
      cluster = await startSlurm(directory.path, { numCpus: 4 });
    });
    afterAll(async () => {
      await cluster?.stop();
      directory.dispose();
    });

    it('finds its ranks', async () => {
      const words = ['srun', '--ntasks=4', ...node];
      const { status, stdout, stderr } = await startProcess(words, { ...secret, ...cluster.env }).finished;
      expect(stderr).toBe('');
      expect(printedRanks(stdout)).toMatchObject(expectedRanks(4, 'slurm'));
      expect(status).toBe(0);
    });

    it('names a rank that dies before it has joined, when the time to join is over', async () => {
      const words = ['srun', '--ntasks=2', ...node, 'early', '1'];
      const env = { ...secret, ...cluster.env, MTL_JOIN_TIMEOUT: '3' };
      const { status, stderr } = await startProcess(words, env).finished;
      expect(stderr).toMatch(
        /error\[MTL_TIMEOUT\]: rank 0 waited \d\.\d s for rank 1 of 2, which never came/,
      );
      expect(stderr).toContain('MTL_JOIN_TIMEOUT=SECONDS waits longer');
      expect(status).not.toBe(0);
    });

    it('is several processes in a step of a batch job, and one in its script', async () => {
      const directory = testDirectory();
      const script = join(directory, 'job.sh');
      const words = node.map((word) => `'${word}'`).join(' ');
      writeFileSync(script, `#!/bin/sh\n${words}\nsrun ${words}\n`);
      const output = join(directory, 'output');
      const sbatch = ['sbatch', '--wait', '--ntasks=2', `--output=${output}`, script];
      const { status } = await startProcess(sbatch, { ...secret, ...cluster.env }).finished;
      const ranks = printedRanks(readFileSync(output, 'utf8'));
      expect(ranks.filter(({ launcher }) => launcher === 'single')).toHaveLength(1);
      expect(ranks.filter(({ launcher }) => launcher === 'slurm')).toMatchObject(expectedRanks(2, 'slurm'));
      expect(status).toBe(0);
    });
  });
});
