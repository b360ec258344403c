import { expect, it } from 'vitest';
import { buildSplitDatasets, type SplitDatasetsOptions } from './build-split-datasets.js';

const kind = {
  open: () => {
    throw new Error('nothing is opened');
  },
  identifiers: () => '',
};
const good = { blend: { prefixes: ['a'], weights: undefined }, numSamples: { train: 1, valid: 0, test: 0 } };

// inputs that JavaScript would coerce silently
it.each([
  [{ blend: ['a'] }, 'MTL_DATA_PATH'],
  [{ blend: 'a' }, 'MTL_DATA_PATH'],
  [{ blend: undefined }, 'MTL_DATA_PATH'],
  [{ numSamples: 64 }, 'MTL_DATA_NUM_SAMPLES'],
  [{ numSamples: undefined }, 'MTL_DATA_NUM_SAMPLES'],
  [{ numSamples: { train: -1 } }, 'MTL_DATA_NUM_SAMPLES'],
  [{ numSamples: { train: 1, valid: 0.5 } }, 'MTL_DATA_NUM_SAMPLES'],
])('refuses %j', (change, code) => {
  const options = { ...good, ...change } as unknown as SplitDatasetsOptions;
  expect(() => buildSplitDatasets(options, kind)).toThrow(expect.objectContaining({ code }));
});
