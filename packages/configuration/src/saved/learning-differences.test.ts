import { expect, it } from 'vitest';
import { decidesLearning } from './learning-differences.js';

it('knows the flags that decide how a model learns: schedule and weights at first too', () => {
  const learning = [
    ...['lr', 'lr-decay-style', 'weight-decay', 'adam-beta1', 'global-batch-size', 'seed', 'data-path'],
    ...['train-iters', 'rampup-batch-size', 'load-hf', 'moe-aux-loss-coeff', 'lora-alpha'],
  ];
  expect(learning.filter((name) => !decidesLearning(name))).toEqual([]);
  const others = [
    ...['micro-batch-size', 'tensor-model-parallel-size', 'recompute-granularity', 'log-interval', 'save'],
    ...['device', 'eval-interval', 'no such flag'],
  ];
  expect(others.filter((name) => decidesLearning(name))).toEqual([]);
});
