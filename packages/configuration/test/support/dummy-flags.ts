import { fraction, text } from '../../src/flags/flag-kinds.js';

/** The declarations of two flags for tests: one changes how a model learns, one does not. */
export const dummyFlags = {
  'dummy-share': fraction('Share that a dummy has.', { default: 0.25, learning: true }),
  'dummy-place': text('Where a dummy is.', { placeholder: 'DIR' }),
};
