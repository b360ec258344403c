import type { RunOptions } from '@mtl/configuration';
import { describe, expect, it } from 'vitest';
import type { TrainGptArgument, TrainGptResult } from './ranks/train-gpt.js';
import { WaitingRanks } from './support/waiting-ranks.js';

const waitingRanks = () =>
  new WaitingRanks<readonly TrainGptArgument[], TrainGptResult[]>(
    new URL('./ranks/train-gpt.ts', import.meta.url),
  );

describe('ranks that wait for what to run', () => {
  it('end with the error of a run that fails, and are closed all the same', async () => {
    const ranks = waitingRanks();
    const training = { options: { preset: 'none', model: { numLayer: 2 } } as RunOptions };
    await expect(ranks.run(2, [training])).rejects.toMatchObject({ code: 'MTL_OPTION' });
    await ranks.close();
  });

  it('are closed without having trained', async () => {
    const ranks = waitingRanks();
    expect(await ranks.run(1, [])).toEqual([[]]);
    await ranks.close();
  });
});
