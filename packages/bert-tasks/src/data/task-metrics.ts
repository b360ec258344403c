import { UsageError } from '@mtl/errors';
import type { SpanExamples } from './read-squad-file.js';

/** Predicted and true classes, as indices into the labels. */
interface ClassificationResults {
  readonly predictions: ArrayLike<number>;
  readonly labels: ArrayLike<number>;
}

/** Returns the fraction of correct predictions, 0 to 1. */
export function accuracy({ predictions, labels }: ClassificationResults): number {
  checkLengths({ predictions, labels });
  let right = 0;
  for (let i = 0; i < labels.length; i++) if (predictions[i] === labels[i]) right++;
  return right / labels.length;
}

/**
 * Returns F1 of class 1 (QQP's duplicates): the harmonic mean of precision and recall; 0 if no prediction of
 * class 1 is correct.
 */
export function binaryF1({ predictions, labels }: ClassificationResults): number {
  checkLengths({ predictions, labels });
  let found = 0;
  let predicted = 0;
  let positive = 0;
  for (let i = 0; i < labels.length; i++) {
    if (predictions[i] === 1) predicted++;
    if (labels[i] === 1) positive++;
    if (predictions[i] === 1 && labels[i] === 1) found++;
  }
  return found === 0 ? 0 : (2 * found) / (predicted + positive);
}

function checkLengths({ predictions, labels }: ClassificationResults): void {
  if (predictions.length === labels.length && labels.length > 0) return;
  throw new UsageError(
    'MTL_DATA_PREDICTIONS',
    `${predictions.length} predictions do not fit ${labels.length} labels`,
    { expected: 'one prediction for each label, and at least one' },
  );
}

/** Predicted answers by question id; '' means that the question is predicted unanswerable. */
interface SquadResults {
  readonly examples: SpanExamples;
  readonly predictions: ReadonlyMap<string, string>;
  /**
   * The score of "no answer" by question id (SQuAD 2.0): a larger score means that an answer is less likely.
   * The scores are required for finding the best thresholds.
   */
  readonly noAnswerProbabilities?: ReadonlyMap<string, number> | undefined;
  /**
   * A question whose probability of "no answer" is above this value counts as predicted unanswerable.
   * Default: 1, as in the official evaluation, so that no question is predicted unanswerable.
   */
  readonly noAnswerThreshold?: number;
}

/** Exact match and F1, as means in percent over `total` questions. */
interface SquadScores {
  readonly exact: number;
  readonly f1: number;
  readonly total: number;
}

/** The results that the official evaluation prints; the optional fields exist only for SQuAD 2.0. */
export interface SquadMetrics extends SquadScores {
  /**
   * The number of questions without a prediction. Their score is 0 in SQuAD 1.1. They are excluded in 2.0.
   */
  readonly missing: number;
  readonly hasAnswer?: SquadScores;
  readonly noAnswer?: SquadScores;
  /**
   * The best score over all thresholds of the probabilities, in percent. `bestExactThreshold` is the
   * threshold that gives this score.
   */
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
 * Returns exact match and F1 by the rules of the official evaluations (Rajpurkar 2016, 2018). A question's
 * score is the best over its ground truths. Version 1.1 counts a missing prediction as wrong. Version 2.0
 * considers only questions with a prediction, treats an answer that is empty after normalisation as "no
 * answer", and searches for the best threshold of the no-answer probabilities.
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

/** Returns the scores if every question above the threshold counts as predicted unanswerable. */
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
 * Returns the best threshold. At the start of the search, every question is predicted unanswerable. The
 * search then accepts predictions in the order of their probabilities. Like the official search, it counts
 * every unanswerable question of the file, computes the score after each question (even between questions
 * with equal probabilities), and starts at threshold 0.
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

// lookarounds instead of \b: in Python, \b treats letters and digits of all languages and the underscore as
// parts of words; in JavaScript, \b treats only ASCII characters in this way
const articles = /(?<![\p{L}\p{N}_])(?:a|an|the)(?![\p{L}\p{N}_])/gu;
const asciiPunctuation = /[!-/:-@[-`{-~]/g;
// The white space of Python's str.split, which includes the separators 1C to 1F and U+0085, but not U+FEFF.
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are meant
const whiteSpace = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/;

/**
 * Returns an answer in the form that SQuAD compares: lower case, without ASCII punctuation, articles and
 * superfluous white space.
 */
export function normalizeAnswer(text: string): string {
  return answerWords(text).join(' ');
}

/** Returns 1 if both strings are the same after normalisation, else 0. */
export function exactMatch(prediction: string, truth: string): number {
  return normalizeAnswer(prediction) === normalizeAnswer(truth) ? 1 : 0;
}

/**
 * Returns the harmonic mean of precision and recall over the words of both strings (as bags), after
 * normalisation. If one of the strings has no words, SQuAD 1.1 gives 0. SQuAD 2.0 gives 1 if neither string
 * has words, else 0.
 */
export function answerF1(
  prediction: string,
  truth: string,
  { emptyMatchesEmpty = true }: { readonly emptyMatchesEmpty?: boolean } = {},
): number {
  const predicted = answerWords(prediction);
  const expected = answerWords(truth);
  if (predicted.length === 0 || expected.length === 0) {
    return emptyMatchesEmpty && predicted.length === expected.length ? 1 : 0;
  }
  const counts = new Map<string, number>();
  for (const word of expected) counts.set(word, (counts.get(word) ?? 0) + 1);
  let same = 0;
  for (const word of predicted) {
    const left = counts.get(word) ?? 0;
    if (left === 0) continue;
    counts.set(word, left - 1);
    same++;
  }
  if (same === 0) return 0;
  const precision = same / predicted.length;
  const recall = same / expected.length;
  return (2 * precision * recall) / (precision + recall);
}

function answerWords(text: string): string[] {
  const plain = text.toLowerCase().replaceAll(asciiPunctuation, '').replaceAll(articles, ' ');
  return plain.split(whiteSpace).filter((word) => word !== '');
}
