import { describe, expect, it } from 'vitest';
import { refuseManyProcesses } from './refuse-many-processes.js';

describe('refuseManyProcesses', () => {
  it.each(['WORLD_SIZE', 'SLURM_STEP_NUM_TASKS', 'OMPI_COMM_WORLD_SIZE', 'PMI_SIZE'])('names %s', (name) => {
    expect(() => refuseManyProcesses({ [name]: '2' })).toThrow(`started as one of 2 processes (${name})`);
    expect(() => refuseManyProcesses({ [name]: '1' })).not.toThrow();
  });

  it('lets a process alone start', () => {
    expect(() => refuseManyProcesses({})).not.toThrow();
  });
});
