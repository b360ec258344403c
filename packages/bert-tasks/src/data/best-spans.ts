import { UsageError } from '@mtl/errors';
import type { SpanWindow } from './encode-spans.js';
import type { SpanExample } from './read-squad-file.js';

// S = sequence length.

/** A model's output for a window. */
interface SpanLogits {
  readonly window: SpanWindow;
  /** [S]: the score of each position as the start of the answer; position 0 means no answer. */
  readonly start: ArrayLike<number>;
  /** [S]: the score of each position as the end of the answer. */
  readonly end: ArrayLike<number>;
}

/** The inputs and settings of the search for the best spans of a question. */
interface BestSpansOptions {
  readonly example: SpanExample;
  /** The logits of each window, in the order of the example's windows. */
  readonly logits: readonly SpanLogits[];
  /**
   * How many starts and how many ends of each window are combined into answers, and the maximum number of
   * returned answers. Default: 20.
   */
  readonly nBest?: number;
  /** The maximum number of tokens in an answer. Default: 30. */
  readonly maximumAnswerLength?: number;
}

/** A possible answer. */
interface SpanCandidate {
  /** The answer, a substring of the context. */
  readonly text: string;
  /** The index of the answer's first UTF-16 unit in the context. */
  readonly start: number;
  /** The sum of the start logit and the end logit. */
  readonly score: number;
  /** The answer's probability among the candidates (softmax of the scores). */
  readonly probability: number;
}

/** The best answers to a question. */
interface BestSpans {
  /**
   * At most `nBest` answers with different texts, the best first; empty if no position may start an answer.
   */
  readonly candidates: readonly SpanCandidate[];
  /**
   * The score of "no answer": the sum of the two logits of position 0, in the window where this sum is
   * lowest.
   */
  readonly noAnswerScore: number;
  /**
   * The probability of "no answer" compared with only the best candidate (softmax of the two scores). It is
   * above one half if "no answer" has the higher score. BERT compares the difference of the scores with a
   * threshold, and the probability increases with this difference.
   */
  readonly noAnswerProbability: number;
}

/**
 * Returns the best answers over all windows of a question (Devlin 2018, 4.2 and 4.3), from pairs of the
 * `nBest` best starts and ends of each window. Start and end must be in the window's context, and the start
 * must be in the window that shows the most context around it. The end must not be before the start or too
 * far after it.
 */
export function bestSpans(options: BestSpansOptions): BestSpans {
  const { example, logits, nBest = 20, maximumAnswerLength = 30 } = options;
  if (logits.length === 0) {
    throw new UsageError('MTL_DATA_PREDICTIONS', `question ${example.id} has no windows`, {
      expected: 'the logits of all its windows',
    });
  }
  const spans: { start: number; end: number; score: number }[] = [];
  let noAnswerScore = Number.POSITIVE_INFINITY;
  for (const { window, start, end } of logits) {
    noAnswerScore = Math.min(noAnswerScore, start[0]! + end[0]!);
    const { offset, starts, ends, hasMaximumContext } = window;
    const lastTokens = largest(end, nBest);
    for (const first of largest(start, nBest)) {
      if (hasMaximumContext[first - offset] !== 1) continue;
      for (const last of lastTokens) {
        if (last < first || last - first >= maximumAnswerLength || last - offset >= ends.length) continue;
        spans.push({
          start: starts[first - offset]!,
          end: ends[last - offset]!,
          score: start[first]! + end[last]!,
        });
      }
    }
  }
  // The sort is stable, so ties are ordered by window, then by larger start, then by larger end.
  spans.sort((a, b) => b.score - a.score);
  const found = new Map<string, { start: number; score: number }>();
  for (const { start, end, score } of spans) {
    if (found.size === nBest) break;
    const text = example.context.slice(start, end);
    if (!found.has(text)) found.set(text, { start, score });
  }
  const best = spans[0]?.score ?? Number.NEGATIVE_INFINITY;
  const sum = [...found.values()].reduce((before, { score }) => before + Math.exp(score - best), 0);
  return {
    candidates: Array.from(found, ([text, { start, score }]) => ({
      text,
      start,
      score,
      probability: Math.exp(score - best) / sum,
    })),
    noAnswerScore,
    noAnswerProbability: 1 / (1 + Math.exp(best - noAnswerScore)),
  };
}

/**
 * Returns the positions of the `count` largest values, the largest first. If values are equal, the lower
 * position comes first.
 */
function largest(values: ArrayLike<number>, count: number): number[] {
  const positions = Array.from({ length: values.length }, (_, i) => i);
  return positions.sort((a, b) => values[b]! - values[a]! || a - b).slice(0, count);
}
