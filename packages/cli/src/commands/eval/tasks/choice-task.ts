import { existsSync } from 'node:fs';
import { DataError } from '@mtl/errors';
import { fileProblem, readRegularFile } from '@mtl/errors/files';
import { continuationScores } from '@mtl/inference';
import { requiredTokenizer } from '../../../command-line/model-flags.js';
import { formatTable } from '../../../terminal/report-text.js';
import { encodePair } from '../encode-text.js';
import type { EvaluationTask, TaskOptions } from './evaluation-task.js';

/** The JSON object in a line of a task's file. */
type Row = Readonly<Record<string, unknown>>;

const isRow = (value: unknown): value is Row =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * Functions that convert rows of HellaSwag, ARC, PIQA and WinoGrande to questions, with the wording of
 * EleutherAI's lm-evaluation-harness (its tasks hellaswag, arc_easy, arc_challenge, piqa and winogrande,
 * zero-shot).
 */
export const choiceRows: Readonly<Record<string, (row: Row) => ChoiceQuestion>> = {
  hellaswag: (row) => {
    const [a, b] = [text(row, 'ctx_a'), text(row, 'ctx_b')];
    const context = cleaned(`${text(row, 'activity_label')}: ${a} ${capitalized(b)}`);
    return checked(
      makeQuestion(context, texts(row.endings, 'endings').map(cleaned), index(row.label, 'label')),
    );
  },
  'arc-easy': arc,
  'arc-challenge': arc,
  piqa: (row) => {
    const answers = [text(row, 'sol1'), text(row, 'sol2')];
    return checked(
      makeQuestion(`Question: ${text(row, 'goal')}\nAnswer:`, answers, index(row.label, 'label')),
    );
  },
  winogrande: (row) => {
    const sentence = text(row, 'sentence');
    const blank = sentence.indexOf('_');
    if (blank < 0) throw new UnusableRowError('has no "_" in its "sentence"');
    const answers = [text(row, 'option1'), text(row, 'option2')];
    const rest = ` ${sentence.slice(blank + 1).trim()}`;
    return checked({
      contexts: answers.map((answer) => sentence.slice(0, blank) + answer),
      continuations: answers.map(() => rest),
      lengths: undefined,
      gold: index(row.answer, 'answer') - 1,
    });
  },
};

/** Reads a row of ARC, in its authors' form or the Hugging Face dataset's form. */
function arc(row: Row): ChoiceQuestion {
  const { question, choices, answerKey } = row;
  const own = isRow(question) ? question : undefined;
  const column = (key: 'text' | 'label'): unknown => {
    if (own === undefined) return isRow(choices) ? choices[key] : undefined;
    return Array.isArray(own.choices) ? own.choices.map((one) => (isRow(one) ? one[key] : one)) : undefined;
  };
  const stem = own === undefined ? text(row, 'question') : text(own, 'stem');
  const gold = texts(column('label'), 'labels of choices').indexOf(String(answerKey));
  return checked(makeQuestion(`Question: ${stem}\nAnswer:`, texts(column('text'), 'texts of choices'), gold));
}

function checked(question: ChoiceQuestion): ChoiceQuestion {
  const { gold, contexts } = question;
  if (gold >= 0 && gold < contexts.length) return question;
  throw new UnusableRowError(`names no answer of its ${contexts.length} as the right one`);
}

function text(row: Row, key: string): string {
  const value = row[key];
  if (typeof value === 'string') return value;
  throw new UnusableRowError(`has no text under "${key}"`);
}

function texts(value: unknown, what: string): readonly string[] {
  if (Array.isArray(value) && value.length > 1 && value.every((one) => typeof one === 'string')) return value;
  throw new UnusableRowError(`has no ${what}`);
}

function index(value: unknown, key: string): number {
  const number = typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value;
  if (Number.isSafeInteger(number)) return number as number;
  throw new UnusableRowError(`has no number under "${key}"`);
}

/**
 * Capitalizes as Python's `capitalize` does: the first letter in upper case, all other letters in lower case.
 */
const capitalized = (words: string): string => words.slice(0, 1).toUpperCase() + words.slice(1).toLowerCase();

/** Removes WikiHow's markup from a text. */
const cleaned = (words: string): string =>
  words
    .trim()
    .replaceAll(' [title]', '. ')
    .replaceAll(/\[.*?\]/g, '')
    .replaceAll('  ', ' ');

/** A question with several answers, as strings for a model to score. */
interface ChoiceQuestion {
  /**
   * The text before each answer. Usually this text is the same for all answers. In some tasks, each answer
   * changes the context.
   */
  readonly contexts: readonly string[];
  /** The text to score after each context. */
  readonly continuations: readonly string[];
  /**
   * How many characters each answer has; `acc_norm` divides by these counts. Undefined for tasks without
   * `acc_norm`.
   */
  readonly lengths: readonly number[] | undefined;
  /** The index of the right answer. */
  readonly gold: number;
}

/** Reports that a row lacks a field; the task adds the file and the line. */
class UnusableRowError extends Error {}

/** Makes a question whose answers all follow the same text and a space. */
function makeQuestion(context: string, answers: readonly string[], gold: number): ChoiceQuestion {
  return {
    contexts: answers.map(() => context),
    continuations: answers.map((answer) => ` ${answer}`),
    // counts code points, as Python does
    lengths: answers.map((answer) => [...answer].length),
    gold,
  };
}

/**
 * The tasks `hellaswag`, `arc-easy`, `arc-challenge`, `piqa` and `winogrande`: the accuracy of choosing the
 * right answer as the most probable continuation. `acc` compares the sums of log-probabilities of the
 * answers' tokens. `acc_norm` compares these sums divided by the number of characters in each answer, as in
 * EleutherAI's lm-evaluation-harness.
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

/** Returns the questions of a file, and the log-probabilities of all their answers in one array. */
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
  /** The fraction of questions for which the right answer has the highest log-probability. */
  readonly acc: number;
  /**
   * The same fraction, but with each answer's log-probability divided by the answer's number of characters.
   */
  readonly acc_norm?: number;
}

/** Returns the accuracies. Among equally probable answers, the first is the model's choice. */
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
  const lines = readLines(path);
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

/** Returns the labels of PIQA from a separate file, such as valid-labels.lst for valid.jsonl. */
function labelsNextTo(path: string, numQuestions: number): readonly string[] | undefined {
  const file = path.replace(/\.jsonl$/, '-labels.lst');
  if (file === path || !existsSync(file)) return undefined;
  const labels = readLines(file);
  if (labels.length === numQuestions) return labels;
  throw new DataError('MTL_EVALUATION_DATA', `${file} has ${labels.length} labels`, {
    expected: `one for each of the ${numQuestions} questions of ${path}`,
  });
}

function readLines(path: string): readonly string[] {
  try {
    return readRegularFile(path)
      .toString('utf8')
      .split(/\r?\n/)
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
