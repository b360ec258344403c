import { describe, expect, it } from 'vitest';
import { TrainingRanks } from './support/training-ranks.js';

describe('ranks that wait for training runs', () => {
  it('end with the error of one that fails, and are closed all the same', async () => {
    const ranks = new TrainingRanks(2);
    const training = { flags: ['--preset', 'none', '--num-layer', '2'] };
    await expect(ranks.train([training])).rejects.toMatchObject({ code: 'MTL_FLAG_UNKNOWN' });
    await ranks.close();
  });

  it('are closed without having trained', async () => {
    const ranks = new TrainingRanks(1);
    expect(await ranks.train([])).toEqual([[]]);
    await ranks.close();
  });
});
