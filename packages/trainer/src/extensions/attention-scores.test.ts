import { Parameter, type ScaledPart } from '@mtl/autograd';
import { describe, expect, it } from 'vitest';
import type { StepMetrics } from '../metrics/training-reports.js';
import { AttentionScores, type WatchedHeads } from './attention-scores.js';

const parameter = new Parameter({ name: 'qkv', globalShape: [4], initialization: { kind: 'zeros' } });

/** Attention heads whose scores the test sets. Each head has one slice to scale. */
function fakeHeads(layer: number, [start, end]: readonly [number, number]) {
  let scores: readonly number[] = [];
  const factors: number[][] = [];
  const watched: WatchedHeads = {
    layer,
    numHeads: 2,
    heads: { start, end },
    watch: () => {
      scores = new Array<number>(end - start).fill(Number.NEGATIVE_INFINITY);
    },
    take: () => scores,
    scaledBy: (of, alpha) => {
      factors.push([...of, alpha]);
      return of.map((factor, head): ScaledPart => ({ parameter, start: head, end: head + 1, factor }));
    },
  };
  return {
    watched,
    factors,
    see: (seen: readonly number[]) => {
      scores = seen;
    },
  };
}

const alone = { maximum: (values: readonly number[]) => values };

/**
 * Makes the extension for a model of two layers with two heads, and records how the extension scales weights.
 */
function makeExtension(options: Partial<ConstructorParameters<typeof AttentionScores>[0]> = {}) {
  const [first, second] = [fakeHeads(0, [0, 2]), fakeHeads(1, [0, 2])];
  const scaled: ScaledPart[][] = [];
  const scores = new AttentionScores({
    watched: [first.watched, second.watched],
    optimizer: { scaleParts: (parts) => scaled.push([...parts]) },
    ranks: alone,
    clip: { alpha: 0.5, threshold: 10 },
    interval: 1,
    ...options,
  });
  const step = (seen: readonly number[], metrics: Partial<StepMetrics> = {}) => {
    scores.aroundPasses(1, () => {
      first.see(seen.slice(0, 2));
      second.see(seen.slice(2));
    });
    return scores.afterStep({ iteration: 1, skipped: false, ...metrics } as StepMetrics);
  };
  return { step, scaled, first, second };
}

describe('AttentionScores', () => {
  it('scales the heads above the threshold by the threshold over their highest score', () => {
    const { step, scaled, first, second } = makeExtension();
    const [event] = step([5, 20, 40, 10]);
    expect(first.factors).toEqual([[1, 0.5, 0.5]]);
    expect(second.factors).toEqual([[0.25, 1, 0.5]]);
    expect(scaled).toHaveLength(1);
    expect(event).toMatchObject({
      type: 'attention_scores',
      fields: { max_attention_logit: 40, layers: [20, 40], clipped: 2 },
    });
    expect(event!.text).toBe('the highest attention score of this step is 40.00; 2 heads were clipped');
  });

  it('leaves all weights as they are where no score is above, in skipped steps, and without clip', () => {
    const { step, scaled } = makeExtension();
    step([5, 10, 9.9, -3]);
    step([5, 100, 9.9, -3], { skipped: true });
    step([5, 100, 9.9, -3], { isLeftOut: true });
    expect(scaled).toEqual([]);
    const reporting = makeExtension({ clip: undefined });
    expect(reporting.step([5, 100, 9.9, -3])[0]!.fields).toEqual({
      max_attention_logit: 100,
      layers: [100, 9.9],
    });
    expect(reporting.scaled).toEqual([]);
  });

  it('does not scale by scores that are not finite', () => {
    const { step, scaled } = makeExtension();
    step([Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NaN, 1]);
    expect(scaled).toEqual([]);
  });

  it('takes the maximum over ranks, and every rank scales its own heads', () => {
    const [own, other] = [fakeHeads(1, [0, 1]), fakeHeads(1, [1, 2])];
    const scaled: number[] = [];
    const ofAll: (readonly number[])[] = [];
    for (const { watched, see } of [own, other]) {
      const scores = new AttentionScores({
        watched: [watched],
        optimizer: { scaleParts: (parts) => scaled.push(parts.length) },
        // the first call is about the sizes
        ranks: {
          maximum: (values) => {
            ofAll.push(values);
            return values.length === 2 ? values : [1, 2, 50, 3];
          },
        },
        clip: { alpha: 1, threshold: 10 },
        interval: 7,
      });
      scores.aroundPasses(1, () => see([30]));
      expect(scores.afterStep({ iteration: 1, skipped: false } as StepMetrics)).toEqual([]);
    }
    const none = Number.NEGATIVE_INFINITY;
    expect(ofAll).toEqual([
      [2, 2],
      [none, none, 30, none],
      [2, 2],
      [none, none, none, 30],
    ]);
    expect([own.factors, other.factors]).toEqual([[[0.2, 1]], [[1, 1]]]);
    // a rank takes part even if none of its heads is above the threshold, because its store gathers the
    // scaled weights of other ranks
    expect(scaled).toHaveLength(2);
  });

  it('reports the highest scores of all steps since the last report', () => {
    const { step } = makeExtension({ interval: 2 });
    expect(step([5, 20, 3, 1], { iteration: 1 })).toEqual([]);
    const [event] = step([6, 2, 30, 1], { iteration: 2 });
    expect(event!.fields).toEqual({ max_attention_logit: 30, layers: [20, 30], clipped: 2 });
    expect(step([6, 2, 3, 1], { iteration: 4 })[0]!.fields).toMatchObject({ layers: [6, 3], clipped: 0 });
  });

  it('reports no score of a step that is left out', () => {
    const { step } = makeExtension({ interval: 2 });
    const leftOut = { isLeftOut: true, skipped: true } as const;
    expect(step([50, 50, 50, 50], { ...leftOut, iteration: 2 })).toEqual([]);
    expect(step([6, 2, 3, 1], { iteration: 3 })).toEqual([]);
    const [event] = step([50, 50, 50, 50], { ...leftOut, iteration: 4 });
    expect(event!.fields).toEqual({ max_attention_logit: 6, layers: [6, 3], clipped: 0 });
  });
});
