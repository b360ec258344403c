import { readProcessEnvironment, type Variables } from '@mtl/comm/launcher';
import { expect, it } from 'vitest';
import { readJob } from './join-processes.js';

const parseJob = (variables: Variables) => readJob(variables, readProcessEnvironment(variables));
const rank = {
  RANK: '0',
  WORLD_SIZE: '1',
  LOCAL_RANK: '0',
  LOCAL_WORLD_SIZE: '1',
  MASTER_ADDR: '127.0.0.1',
  MASTER_PORT: '29500',
};
const torchrun = { ...rank, TORCHELASTIC_USE_AGENT_STORE: 'True', TORCHELASTIC_RUN_ID: 'none' };
const slurm = { SLURM_JOB_ID: '7', SLURM_STEP_ID: '1', SLURM_CLUSTER_NAME: 'c' };

it.each([
  ['nothing', {}, { id: undefined, restartCount: 0 }],
  ['mtl run', { ...rank, MTL_JOB_ID: 'a', MTL_RESTART_COUNT: '2' }, { id: 'a', restartCount: 2 }],
  ['mtl run under Slurm', { ...rank, ...slurm, MTL_JOB_ID: 'a' }, { id: 'a', restartCount: 0 }],
  ['Slurm', { ...slurm, SLURM_RESTART_COUNT: '1' }, { id: 'slurm c 7.1', restartCount: 1 }],
  [
    'torchrun, whose agent starts processes again',
    { ...torchrun, TORCHELASTIC_RESTART_COUNT: '3' },
    { id: `torchrun none 29500 ${process.ppid}`, restartCount: 3 },
  ],
] as const)('knows a job of %s', (_, variables, expected) => {
  expect(parseJob(variables)).toEqual(expected);
});
