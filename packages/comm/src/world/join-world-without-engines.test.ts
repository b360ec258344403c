import { KernelError } from '@mtl/errors';
import { describe, expect, it, vi } from 'vitest';

vi.mock('@mtl/kernels/internal', async (original) => ({
  ...(await original<object>()),
  tensorApi: () => {
    throw new KernelError('MTL_WEBASSEMBLY', 'the kernels are WebAssembly', {
      remedy: 'train in one process',
    });
  },
}));

const { joinWorld } = await import('./join-world.js');

describe('joinWorld where the kernels are WebAssembly', () => {
  const variables = { MASTER_ADDR: '127.0.0.1', MASTER_PORT: '29500', MTL_JOB_SECRET: 's'.repeat(32) };
  const several = { ...variables, RANK: '0', WORLD_SIZE: '2', LOCAL_RANK: '0', LOCAL_WORLD_SIZE: '2' };

  it.each(['local', 'gloo', 'nccl', undefined] as const)(
    'refuses several processes, engine %s',
    async (engine) => {
      const joined = joinWorld({ variables: several, ...(engine === undefined ? {} : { engine }) });
      await expect(joined).rejects.toMatchObject({ code: 'MTL_WEBASSEMBLY', remedy: 'train in one process' });
    },
  );

  it('takes one process', async () => {
    const world = await joinWorld({ variables: {} });
    expect([world.rank, world.size]).toEqual([0, 1]);
    world.close();
  });
});
