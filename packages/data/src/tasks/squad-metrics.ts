import { UsageError } from '@mtl/errors';
import { answerF1, exactMatch, normalizeAnswer } from './answer-scores.js';
import type { SpanExamples } from './read-squad-file.js';

/** Predicted answers by question id; '' means unanswerable. */
export interface SquadResults {
  readonly examples: SpanExamples;
  readonly predictions: ReadonlyMap<string, string>;
  /** SQuAD 2.0: by question id, the larger the less likely an answer. Needed for the best thresholds. */
  readonly noAnswerProbabilities?: ReadonlyMap<string, number> | undefined;
  /**
   * A question whose probability is above it counts as predicted unanswerable (1, the official default:
   * none).
   */
  readonly noAnswerThreshold?: number;
}

/** Means in percent over `total` questions. */
export interface SquadScores {
  readonly exact: number;
  readonly f1: number;
  readonly total: number;
}

/** What the official evaluation prints; optional parts only for SQuAD 2.0. */
export interface SquadMetrics extends SquadScores {
  /** Questions without a prediction: 0 in SQuAD 1.1, left out in 2.0. */
  readonly missing: number;
  readonly hasAnswer?: SquadScores;
  readonly noAnswer?: SquadScores;
  /** The best score over all thresholds of the probabilities, in percent, and that threshold. */
  readonly bestExact?: number;
  readonly bestExactThreshold?: number;
  readonly bestF1?: number;
  readonly bestF1Threshold?: number;
}

interface QuestionScore {
  readonly id: string;
  readonly hasAnswer: boolean;
  readonly prediction: string;
  readonly exact: number;
  readonly f1: number;
}

/**
 * Exact match and F1 by the rules of the official evaluations, best over the ground truths of a question
 * (Rajpurkar 2016, 2018): version 1.1 counts a missing prediction as wrong; version 2.0 looks only at
 * questions with a prediction, takes an answer that normalisation empties for none, and searches the best
 * threshold of the no-answer probabilities.
 */
export function squadMetrics(options: SquadResults): SquadMetrics {
  const { examples, predictions, noAnswerProbabilities } = options;
  const { hasUnanswerable } = examples;
  const scored = scoreQuestions({ examples, predictions });
  const missing = examples.examples.length - scored.length;
  if (!hasUnanswerable) return { ...meanScores(scored, examples.examples.length), missing };
  if (scored.length === 0) throw predictionsError('no question of the file has a prediction', 'at least one');
  const judged = applyThreshold({ ...options, scored });
  const withAnswer = judged.filter(({ hasAnswer }) => hasAnswer);
  const without = judged.filter(({ hasAnswer }) => !hasAnswer);
  const parts = {
    ...(withAnswer.length === 0 ? {} : { hasAnswer: meanScores(withAnswer, withAnswer.length) }),
    ...(without.length === 0 ? {} : { noAnswer: meanScores(without, without.length) }),
  };
  const metrics = { ...meanScores(judged, judged.length), missing, ...parts };
  if (noAnswerProbabilities === undefined) return metrics;
  const search = { scored, probabilities: noAnswerProbabilities, examples };
  const exact = bestThreshold({ ...search, score: (question) => question.exact });
  const f1 = bestThreshold({ ...search, score: (question) => question.f1 });
  return {
    ...metrics,
    bestExact: exact.best,
    bestExactThreshold: exact.threshold,
    bestF1: f1.best,
    bestF1Threshold: f1.threshold,
  };
}

function scoreQuestions(options: Pick<SquadResults, 'examples' | 'predictions'>): QuestionScore[] {
  const { examples, predictions } = options;
  const { hasUnanswerable } = examples;
  return examples.examples.flatMap(({ id, answers }) => {
    const prediction = predictions.get(id);
    if (prediction === undefined) return [];
    let truths = answers.map(({ text }) => text);
    if (hasUnanswerable) truths = truths.filter((text) => normalizeAnswer(text) !== '');
    if (truths.length === 0) truths = [''];
    return {
      id,
      prediction,
      hasAnswer: answers.length > 0,
      exact: Math.max(...truths.map((truth) => exactMatch(prediction, truth))),
      f1: Math.max(
        ...truths.map((truth) => answerF1(prediction, truth, { emptyMatchesEmpty: hasUnanswerable })),
      ),
    };
  });
}

function meanScores(scores: readonly QuestionScore[], total: number): SquadScores {
  const sum = (key: 'exact' | 'f1'): number => scores.reduce((before, score) => before + score[key], 0);
  return { exact: (100 * sum('exact')) / total, f1: (100 * sum('f1')) / total, total };
}

/** Scores once every question above the threshold counts as predicted unanswerable. */
function applyThreshold(options: SquadResults & { scored: readonly QuestionScore[] }): QuestionScore[] {
  const { scored, noAnswerProbabilities, noAnswerThreshold = 1 } = options;
  if (noAnswerProbabilities === undefined) return [...scored];
  return scored.map((question) => {
    const probability = noAnswerProbabilities.get(question.id);
    if (probability === undefined) {
      throw predictionsError(
        `question ${question.id} has no no-answer probability`,
        'one for each prediction',
      );
    }
    if (probability <= noAnswerThreshold) return question;
    const score = question.hasAnswer ? 0 : 1;
    return { ...question, exact: score, f1: score };
  });
}

/**
 * Starts with every question predicted unanswerable, then accepts predictions in the order of their
 * probabilities. Kept as the official search has it: it counts every unanswerable question of the file, looks
 * at the score after each single question even among equals, and starts from the threshold 0.
 */
function bestThreshold(options: {
  scored: readonly QuestionScore[];
  probabilities: ReadonlyMap<string, number>;
  examples: SpanExamples;
  score: (question: QuestionScore) => number;
}): { best: number; threshold: number } {
  const { scored, probabilities, examples, score } = options;
  const questions = new Map(scored.map((question) => [question.id, question]));
  let current = examples.examples.filter(({ answers }) => answers.length === 0).length;
  let best = current;
  let threshold = 0;
  for (const [id, probability] of [...probabilities].sort(([, a], [, b]) => a - b)) {
    const question = questions.get(id);
    if (question === undefined) continue;
    if (question.hasAnswer) current += score(question);
    else if (question.prediction !== '') current--;
    if (current > best) {
      best = current;
      threshold = probability;
    }
  }
  return { best: (100 * best) / scored.length, threshold };
}

function predictionsError(what: string, expected: string): UsageError {
  return new UsageError('MTL_DATA_PREDICTIONS', what, { expected });
}
