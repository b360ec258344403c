import { expect, it } from 'vitest';
import { renamedLosses } from './metrics-records.js';

it("takes BERT's masked loss of an older record for the loss of the language model, its sum for the total", () => {
  const older = { iteration: 3, lm_loss: 7.5, mlm_loss: 7, sop_loss: 0.5, grad_norm: 1 };
  expect(renamedLosses(older)).toEqual({
    iteration: 3,
    lm_loss: 7,
    sop_loss: 0.5,
    total_loss: 7.5,
    grad_norm: 1,
  });
  // of a step that was left out
  expect(renamedLosses({ iteration: 4, lm_loss: null, mlm_loss: null, sop_loss: null })).toEqual({
    iteration: 4,
    lm_loss: null,
    sop_loss: null,
    total_loss: null,
  });
});

it('leaves records alone that have the names of today', () => {
  for (const record of [
    { iteration: 1, lm_loss: 7 },
    { iteration: 1, lm_loss: 7, sop_loss: 0.5, total_loss: 7.5 },
    { iteration: 1, type: 'validation', lm_loss: 7, balance_loss: 1 },
  ])
    expect(renamedLosses(record)).toBe(record);
});
