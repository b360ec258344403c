import { MtlError } from '@mtl/errors';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ProcessEnvironment, readProcessEnvironment } from './process-environment.js';
import type { Variables } from './variable-reader.js';

function catchError(variables: Variables): MtlError {
  try {
    readProcessEnvironment(variables);
  } catch (error) {
    if (MtlError.isInstance(error)) return error;
    throw error;
  }
  throw new Error(`nothing is wrong with ${JSON.stringify(variables)}`);
}

const torchrun = {
  RANK: '3',
  WORLD_SIZE: '4',
  LOCAL_RANK: '1',
  LOCAL_WORLD_SIZE: '2',
  GROUP_RANK: '1',
  MASTER_ADDR: '10.0.0.1',
  MASTER_PORT: '29400',
  TORCHELASTIC_RUN_ID: 'none',
  TORCHELASTIC_RESTART_COUNT: '2',
  TORCHELASTIC_USE_AGENT_STORE: 'True',
};
const slurm = {
  SLURM_JOB_ID: '77',
  SLURM_STEP_ID: '0',
  SLURM_PROCID: '2',
  SLURM_LOCALID: '0',
  SLURM_NODEID: '1',
  SLURM_STEP_NUM_TASKS: '3',
  SLURM_STEP_NUM_NODES: '2',
  SLURM_STEP_TASKS_PER_NODE: '2,1',
  SLURM_NTASKS: '3',
  SLURM_STEP_NODELIST: 'gpu[07-08]',
  SLURM_JOB_NODELIST: 'gpu[07-08]',
};
const openMpi = {
  OMPI_COMM_WORLD_RANK: '1',
  OMPI_COMM_WORLD_SIZE: '2',
  PMIX_NAMESPACE: '12345',
  OMPI_COMM_WORLD_LOCAL_RANK: '1',
  OMPI_COMM_WORLD_LOCAL_SIZE: '2',
  OMPI_COMM_WORLD_NODE_RANK: '1',
};
const mtl = {
  RANK: '0',
  WORLD_SIZE: '2',
  LOCAL_RANK: '0',
  LOCAL_WORLD_SIZE: '2',
  GROUP_RANK: '0',
  MTL_LAUNCHER: 'mtl',
  MASTER_ADDR: '127.0.0.1',
  MASTER_PORT: '40123',
  MTL_RESTART_COUNT: '1',
};

describe('readProcessEnvironment', () => {
  it('is one process when nothing says otherwise', () => {
    expect(readProcessEnvironment({ PATH: '/bin', RANK: '' })).toMatchObject({
      launcher: 'single',
      rank: 0,
      worldSize: 1,
      localRank: 0,
      localWorldSize: 1,
      nodeRank: 0,
      numNodes: 1,
    });
  });

  it('reads mtl run: the launcher has the store, at MASTER_PORT', () => {
    expect(readProcessEnvironment(mtl)).toMatchObject({
      launcher: 'mtl',
      rank: 0,
      worldSize: 2,
      storePorts: [40123],
      storeHost: 'launcher',
      restartCount: 1,
    });
  });

  it('reads torchrun, and leaves MASTER_PORT to its agent', () => {
    const environment = readProcessEnvironment(torchrun);
    expect(environment).toMatchObject({
      launcher: 'torchrun',
      rank: 3,
      worldSize: 4,
      localRank: 1,
      localWorldSize: 2,
      nodeRank: 1,
      numNodes: 2,
      masterAddress: '10.0.0.1',
      masterPort: 29400,
      storeHost: 'rank 0',
      restartCount: 2,
    });
    expect(environment.storePorts).toHaveLength(8);
    expect(environment.storePorts).not.toContain(29400);
  });

  it('reads srun, with hosts that have different numbers of tasks', () => {
    expect(readProcessEnvironment(slurm)).toMatchObject({
      launcher: 'slurm',
      rank: 2,
      worldSize: 3,
      localRank: 0,
      localWorldSize: 1,
      nodeRank: 1,
      numNodes: 2,
      masterAddress: 'gpu07',
      storeHost: 'rank 0',
    });
  });

  it('takes the script of a batch job, which srun did not start, for one process', () => {
    const script = {
      SLURM_JOB_ID: '77',
      SLURM_PROCID: '0',
      SLURM_LOCALID: '0',
      SLURM_NODEID: '0',
      SLURM_NTASKS: '4',
    };
    expect(readProcessEnvironment(script)).toMatchObject({ launcher: 'single', worldSize: 1 });
  });

  it('reads mpirun', () => {
    expect(readProcessEnvironment(openMpi)).toMatchObject({
      launcher: 'openmpi',
      rank: 1,
      worldSize: 2,
      localRank: 1,
      localWorldSize: 2,
      nodeRank: 0,
      numNodes: 1,
    });
  });

  it('reads mpiexec of MPICH', () => {
    const variables = {
      PMI_RANK: '2',
      PMI_SIZE: '4',
      MPI_LOCALRANKID: '0',
      MPI_LOCALNRANKS: '2',
      MASTER_ADDR: 'a',
    };
    expect(readProcessEnvironment(variables)).toMatchObject({
      launcher: 'pmi',
      rank: 2,
      nodeRank: 1,
      numNodes: 2,
    });
  });

  it('prefers RANK to Open MPI, Open MPI to Slurm, and Slurm to PMI', () => {
    const pmi = { PMI_RANK: '0', PMI_SIZE: '3', MPI_LOCALRANKID: '0', MPI_LOCALNRANKS: '3' };
    const all = { ...pmi, ...slurm, ...openMpi, ...torchrun };
    expect(readProcessEnvironment(all).launcher).toBe('torchrun');
    expect(readProcessEnvironment({ ...pmi, ...slurm, ...openMpi }).launcher).toBe('openmpi');
    expect(readProcessEnvironment({ ...pmi, ...slurm }).launcher).toBe('slurm');
  });

  it('meets on the loopback when all processes are on one host, whatever MASTER_ADDR says', () => {
    const variables = {
      ...torchrun,
      RANK: '1',
      WORLD_SIZE: '2',
      GROUP_RANK: '0',
      MASTER_ADDR: 'somewhere.example',
    };
    expect(readProcessEnvironment(variables).masterAddress).toBe('127.0.0.1');
  });

  it('gives processes of one job the same ports and other jobs other ones', () => {
    const readPorts = (namespace: string, rank: string): readonly number[] =>
      readProcessEnvironment({
        ...openMpi,
        PMIX_NAMESPACE: namespace,
        OMPI_COMM_WORLD_RANK: rank,
        OMPI_COMM_WORLD_LOCAL_RANK: rank,
      }).storePorts;
    expect(readPorts('12345', '0')).toEqual(readPorts('12345', '1'));
    expect(readPorts('12345', '0')).not.toEqual(readPorts('12346', '0'));
    expect(readProcessEnvironment({ ...openMpi, MTL_STORE_PORT: '5000' }).storePorts).toEqual([5000]);
  });

  it.each([
    ['RANK without WORLD_SIZE', { RANK: '0' }, 'WORLD_SIZE is not'],
    ['WORLD_SIZE without RANK', { WORLD_SIZE: '2' }, 'RANK is not'],
    ['a rank that is no number', { ...torchrun, RANK: 'one' }, 'RANK=one'],
    [
      'a rank outside of the world',
      { ...torchrun, RANK: '4', LOCAL_RANK: '0', GROUP_RANK: '2' },
      'rank 4 of 4',
    ],
    ['a world of none', { RANK: '0', WORLD_SIZE: '0' }, 'WORLD_SIZE=0'],
    ['half of the local variables', { ...torchrun, LOCAL_RANK: undefined }, 'LOCAL_RANK is not'],
    ['another host than the rank says', { ...torchrun, GROUP_RANK: '0' }, 'GROUP_RANK says 0'],
    ['hosts of different sizes', { ...torchrun, WORLD_SIZE: '5' }, 'not numbered host by host'],
    ['several hosts without an address', { ...torchrun, MASTER_ADDR: undefined }, 'several hosts'],
    [
      'several hosts that meet on the loopback',
      { ...torchrun, MASTER_ADDR: 'localhost' },
      'each takes for itself',
    ],
    ['a port that is none', { ...torchrun, MASTER_PORT: '65536' }, 'MASTER_PORT=65536'],
    ['ranks of unknown hosts', { RANK: '0', WORLD_SIZE: '2', MASTER_ADDR: '10.0.0.1' }, 'share a host'],
    ['half of Slurm', { SLURM_STEP_NUM_TASKS: '2' }, 'without SLURM_NODEID'],
    ['tasks that do not add up', { ...slurm, SLURM_STEP_TASKS_PER_NODE: '2(x2)' }, 'contradict each other'],
    ['half of Open MPI', { OMPI_COMM_WORLD_RANK: '0' }, 'OMPI_COMM_WORLD_SIZE is not'],
    [
      'processes assigned to hosts in turn',
      { ...openMpi, OMPI_COMM_WORLD_SIZE: '4', OMPI_COMM_WORLD_LOCAL_RANK: '0' },
      'host by host',
    ],
    ['PMI without hosts', { PMI_RANK: '0', PMI_SIZE: '2' }, 'share a host'],
  ])('refuses %s with a remedy', (_, variables, message) => {
    const error = catchError(variables);
    expect(error).toMatchObject({ name: 'ConfigurationError', code: 'MTL_LAUNCH_ENVIRONMENT', exitCode: 2 });
    expect(error.message).toContain(message);
    expect(error.remedy).toBeTruthy();
  });

  it('agrees for all ranks of any job: hosts hold disjoint blocks, and all meet at the same place', () => {
    const shape = fc.record({
      nodes: fc.integer({ min: 1, max: 5 }),
      perNode: fc.integer({ min: 1, max: 8 }),
    });
    fc.assert(
      fc.property(shape, fc.constantFrom('torchrun', 'openmpi', 'slurm'), ({ nodes, perNode }, launcher) => {
        const all = Array.from({ length: nodes * perNode }, (_, rank) =>
          readProcessEnvironment(makeVariables(launcher, { rank, nodes, perNode })),
        );
        expect(all.map(({ rank }) => rank)).toEqual(all.map((_, rank) => rank));
        expect(new Set(all.map(({ nodeRank, localRank }) => `${nodeRank} ${localRank}`)).size).toBe(
          all.length,
        );
        const meetings = all.map((each: ProcessEnvironment) =>
          JSON.stringify([each.masterAddress, each.storePorts]),
        );
        expect(new Set(meetings).size).toBe(1);
        for (const each of all) {
          expect(each).toMatchObject({
            launcher,
            worldSize: all.length,
            numNodes: nodes,
            localWorldSize: perNode,
          });
          expect(each.nodeRank * perNode + each.localRank).toBe(each.rank);
        }
      }),
    );
  });
});

function makeVariables(
  launcher: string,
  { rank, nodes, perNode }: { rank: number; nodes: number; perNode: number },
): Variables {
  const [world, local, node] = [nodes * perNode, rank % perNode, Math.floor(rank / perNode)].map(String);
  if (launcher === 'torchrun') {
    return {
      ...torchrun,
      RANK: String(rank),
      WORLD_SIZE: world,
      LOCAL_RANK: local,
      LOCAL_WORLD_SIZE: String(perNode),
      GROUP_RANK: node,
    };
  }
  if (launcher === 'openmpi') {
    return {
      MASTER_ADDR: '10.0.0.1',
      OMPI_COMM_WORLD_RANK: String(rank),
      OMPI_COMM_WORLD_SIZE: world,
      OMPI_COMM_WORLD_LOCAL_RANK: local,
      OMPI_COMM_WORLD_LOCAL_SIZE: String(perNode),
    };
  }
  return {
    ...slurm,
    SLURM_PROCID: String(rank),
    SLURM_STEP_NUM_TASKS: world,
    SLURM_LOCALID: local,
    SLURM_NODEID: node,
    SLURM_STEP_NUM_NODES: String(nodes),
    SLURM_STEP_TASKS_PER_NODE: `${perNode}(x${nodes})`,
  };
}
