import { existsSync } from 'node:fs';
import { fileProblem, readRegularFile } from '@mtl/data';
import { DataError } from '@mtl/errors';
import { continuationScores } from '@mtl/inference';
import { requiredTokenizer } from '../../../command-line/model-flags.js';
import { formatTable } from '../../../terminal/report-text.js';
import { encodePair } from '../encode-text.js';
import { type ChoiceQuestion, choiceRows, isRow, UnusableRowError } from './choice-rows.js';
import type { EvaluationTask, TaskOptions } from './evaluation-task.js';

/**
 * `--task hellaswag`, `arc-easy`, `arc-challenge`, `piqa`, `winogrande`: which of the answers is the most
 * probable continuation. `acc` compares the sums of the log-probabilities of their tokens, `acc_norm` these
 * divided by the characters of the answers, as EleutherAI's lm-evaluation-harness does.
 */
export const choiceTasks: readonly EvaluationTask[] = Object.keys(choiceRows).map((name) => ({
  name,
  defaultStride: undefined,
  run: async (options) => {
    const { questions, logProbabilities, numShortened } = await scoredQuestions(name, options);
    const scores = accuracies(questions, logProbabilities);
    const report = { ...scores, numQuestions: questions.length, numShortened };
    return { report, table: formatResult(report) };
  },
}));

/** Returns the questions of a file, and the log-probabilities of their answers, question after question. */
export async function scoredQuestions(
  name: string,
  { path, loaded, batchSize, onProgress }: Omit<TaskOptions, 'windows'>,
): Promise<{
  readonly questions: readonly ChoiceQuestion[];
  readonly logProbabilities: Float64Array;
  readonly numShortened: number;
}> {
  const tokenizer = requiredTokenizer(loaded);
  const questions = readQuestions(path, name);
  const continuations = questions.flatMap(({ contexts, continuations }) =>
    contexts.map((context, answer) => encodePair(tokenizer, context, continuations[answer]!)),
  );
  const scores = await continuationScores({
    model: loaded.model,
    continuations,
    batchSize,
    onProgress: ({ numDone, numAll }) => onProgress(numDone / numAll),
  });
  return { questions, ...scores };
}

interface ChoiceScores {
  /** The share of questions whose right answer has the highest log-probability. */
  readonly acc: number;
  /** Accuracy by log-probabilities divided by the number of characters. */
  readonly acc_norm?: number;
}

/** The first of equal answers counts as the best. */
export function accuracies(questions: readonly ChoiceQuestion[], scores: Float64Array): ChoiceScores {
  let [first, numRight, numRightByLength] = [0, 0, 0];
  for (const { contexts, lengths, gold } of questions) {
    const own = scores.subarray(first, first + contexts.length);
    first += contexts.length;
    if (own.indexOf(Math.max(...own)) === gold) numRight += 1;
    const byLength = own.map((score, answer) => score / (lengths?.[answer] ?? 1));
    if (byLength.indexOf(Math.max(...byLength)) === gold) numRightByLength += 1;
  }
  const hasLengths = questions.every(({ lengths }) => lengths !== undefined);
  const count = questions.length;
  return { acc: numRight / count, ...(hasLengths ? { acc_norm: numRightByLength / count } : {}) };
}

function readQuestions(path: string, task: string): readonly ChoiceQuestion[] {
  const lines = linesOf(path);
  const labels = labelsNextTo(path, lines.length);
  const questions = lines.map((line, number) => {
    try {
      const row: unknown = JSON.parse(line);
      if (!isRow(row)) throw new UnusableRowError('is not a JSON object');
      return choiceRows[task]!(labels === undefined ? row : { label: labels[number], ...row });
    } catch (cause) {
      if (!(cause instanceof UnusableRowError || cause instanceof SyntaxError)) throw cause;
      throw new DataError('MTL_EVALUATION_DATA', `${path}, question ${number + 1}: ${cause.message}`, {
        expected: `JSON lines of ${task}, as its authors or the Hugging Face datasets have them`,
        cause,
      });
    }
  });
  if (questions.length > 0) return questions;
  throw new DataError('MTL_EVALUATION_DATA', `${path} holds no question`);
}

/** PIQA keeps its labels in a file of their own: valid.jsonl has valid-labels.lst. */
function labelsNextTo(path: string, numQuestions: number): readonly string[] | undefined {
  const file = path.replace(/\.jsonl$/, '-labels.lst');
  if (file === path || !existsSync(file)) return undefined;
  const labels = linesOf(file);
  if (labels.length === numQuestions) return labels;
  throw new DataError('MTL_EVALUATION_DATA', `${file} has ${labels.length} labels`, {
    expected: `one for each of the ${numQuestions} questions of ${path}`,
  });
}

function linesOf(path: string): readonly string[] {
  try {
    return readRegularFile(path)
      .toString('utf8')
      .split('\n')
      .filter((line) => line.trim() !== '');
  } catch (cause) {
    throw new DataError('MTL_EVALUATION_DATA', `${path} ${fileProblem(cause)}`, {
      expected: 'an existing .jsonl file',
      cause,
    });
  }
}

function formatResult(
  report: ChoiceScores & { readonly numQuestions: number; readonly numShortened: number },
): string {
  const { acc, acc_norm: byLength, numQuestions, numShortened } = report;
  const percent = (share: number): string => `${(100 * share).toFixed(2)} %`;
  return formatTable([
    ['acc', percent(acc)],
    ...(byLength === undefined ? [] : [['acc_norm', percent(byLength)] as const]),
    ['questions', numQuestions],
    ...(numShortened === 0
      ? []
      : [['answers longer than the context (beginning left out)', numShortened] as const]),
  ]);
}
