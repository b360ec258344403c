import { describe, expect, it } from 'vitest';
import { openSampleDataset } from './open-sample-dataset.js';

describe('openSampleDataset', () => {
  it('refuses a description of an unknown kind', () => {
    expect(() => openSampleDataset({ kind: 'images' })).toThrowError(
      expect.objectContaining({ code: 'MTL_DATA_KIND', message: 'unknown kind of dataset: images' }),
    );
  });
});
