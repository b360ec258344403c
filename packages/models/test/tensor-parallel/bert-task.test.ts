import { beforeAll, describe, expect, it } from 'vitest';
import { distance, runSharded, runWhole } from './compare-with-one-process.js';
import type { ShardedStepResult } from './ranks/sharded-gpt.js';
import type { StepOptions } from './small-gpt.js';

// The bounds of bert.test.ts, and their reasons; here of the loss, which is 1 to 3.
const bounds = { loss: 2e-6, gradient: 1e-5 };

/**
 * Biases that shift all logits of a softmax equally: the head's bias, and for spans the last norm's bias.
 * Their gradients are zero except for rounding of sums of terms below 1, so they have no norm to compare
 * with.
 */
const shiftsAllAlike = ({ task }: StepOptions): ReadonlySet<string> =>
  new Set(
    task?.kind === 'span'
      ? ['span_head.bias', 'encoder.final_layernorm.bias', 'encoder.layers.1.post_mlp_layernorm.bias']
      : ['multichoice_head.bias'],
  );

const cases: readonly (readonly [string, StepOptions])[] = [
  ['classification', { bert: 'pre', task: { kind: 'classification', numClasses: 3 } }],
  ['multiple choice', { bert: 'post', task: { kind: 'multiple-choice' } }],
  ['spans', { bert: 'pre', task: { kind: 'span' } }],
  ['spans, halves apart', { bert: 'post', task: { kind: 'span' }, split: true }],
];

describe.each([2, 4])('BertTaskStage on %i tensor-parallel ranks', (size) => {
  const results = new Map<string, ShardedStepResult[]>();

  beforeAll(async () => {
    const all = [false, true].flatMap((sequenceParallel) =>
      cases.map(([name, options]) => ({ name, step: { ...options, sequenceParallel } })),
    );
    const sharded = await runSharded(
      size,
      all.map(({ step }) => step),
    );
    all.forEach(({ name, step }, index) => {
      results.set(`${step.sequenceParallel} ${name}`, sharded[index]!);
    });
  });

  describe.each([false, true])('sequence parallelism %s', (sequenceParallel) => {
    it.each(cases)('losses and every gradient equal one process: %s', (name, options) => {
      const all = runWhole(options);
      const alike = shiftsAllAlike(options);
      const whole = { ...all, gradients: all.gradients.filter((one) => !alike.has(one.name)) };
      const ranks = results.get(`${sequenceParallel} ${name}`)!;
      const { loss, gradient } = distance(ranks, whole);
      expect(loss / whole.loss).toBeLessThanOrEqual(bounds.loss);
      expect(gradient).toBeLessThanOrEqual(bounds.gradient);
      for (const { evaluated, gradients } of ranks) {
        expect(Math.abs(evaluated / whole.evaluated - 1)).toBeLessThanOrEqual(bounds.loss);
        // the head's computation is replicated
        const zero = gradients.filter((one) => alike.has(one.name) && !one.isPartial);
        for (const one of zero) {
          expect(Math.hypot(...one.values)).toBeLessThan(1e-6);
        }
        const parts = gradients.filter(({ isPartial }) => isPartial).map((one) => one.name);
        expect(parts.some((parameter) => /head|pooler|final/.test(parameter))).toBe(false);
      }
    });
  });
});
