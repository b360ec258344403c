import { ConfigurationError } from '@mtl/errors';
import { describe, expect, it } from 'vitest';
import { chooseGpuEngine, type RankOnGpu } from './choose-engine.js';

const rank = (uuid: string, more: Partial<RankOnGpu> = {}): RankOnGpu => ({
  uuid,
  mayShareGpu: false,
  ncclVersion: '2.30.7',
  ...more,
});
const two = [rank('a'), rank('b')];
const shared = [rank('a'), rank('b'), rank('a')];
const oneHost = { asked: undefined, numNodes: 1 };

function refusal(body: () => unknown): ConfigurationError {
  try {
    body();
  } catch (error) {
    if (error instanceof ConfigurationError) return error;
  }
  throw new Error('nothing was refused');
}

describe('the engine of GPUs', () => {
  it('is NCCL where every rank has a GPU of its own', () => {
    expect(chooseGpuEngine(two, oneHost)).toMatchObject({ name: 'nccl', sharesGpu: false });
    expect(chooseGpuEngine(two, { asked: 'nccl', numNodes: 2 }).message).toContain('NCCL 2.30.7');
  });

  it.each([
    ['ranks share a GPU', shared, 'ranks 0 and 2 share one GPU'],
    [
      'the library lacks',
      [rank('a'), rank('b', { ncclProblem: 'not found' })],
      'rank 1 cannot use NCCL: not found',
    ],
    [
      'versions differ',
      [rank('a'), rank('b', { ncclVersion: '2.20.5' })],
      'versions of NCCL: 2.30.7, 2.20.5',
    ],
  ])('is one of the host where %s, and says so; asked for, NCCL is refused', (_, ranks, why) => {
    const choice = chooseGpuEngine(ranks, oneHost);
    expect(choice.name).toBe('local');
    expect(choice.message).toContain(why);
    expect(chooseGpuEngine(ranks, { asked: undefined, numNodes: 2 }).name).toBe('gloo');
    const error = refusal(() => chooseGpuEngine(ranks, { asked: 'nccl', numNodes: 1 }));
    expect(error.code).toBe('MTL_NCCL');
    expect(error.message).toContain(why);
    expect(error.exitCode).toBe(2);
  });

  it('lets ranks share a GPU over NCCL only when all ranks were told that they may', () => {
    const told = shared.map((each) => ({ ...each, mayShareGpu: true }));
    expect(chooseGpuEngine(told, oneHost)).toMatchObject({ name: 'nccl', sharesGpu: true });
    const mostly = [told[0]!, told[1]!, shared[2]!];
    expect(chooseGpuEngine(mostly, oneHost).name).toBe('local');
    const { remedy } = refusal(() => chooseGpuEngine(mostly, { asked: 'nccl', numNodes: 1 }));
    expect(remedy).toContain('MTL_NCCL_SHARE_GPU=1');
  });

  it.each(['local', 'gloo'] as const)('is %s of the host where that is asked for', (asked) => {
    expect(chooseGpuEngine(two, { asked, numNodes: 1 })).toMatchObject({ name: asked });
  });
});
