/** A line of a task's file. */
export type Row = Readonly<Record<string, unknown>>;

export const isRow = (value: unknown): value is Row =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * The questions of HellaSwag, ARC, PIQA and WinoGrande, worded as EleutherAI's lm-evaluation-harness does
 * (hellaswag, arc_easy, arc_challenge, piqa, winogrande, without examples).
 */
export const choiceRows: Readonly<Record<string, (row: Row) => ChoiceQuestion>> = {
  hellaswag: (row) => {
    const [a, b] = [text(row, 'ctx_a'), text(row, 'ctx_b')];
    const context = cleaned(`${text(row, 'activity_label')}: ${a} ${capitalized(b)}`);
    return checked(
      questionOf(context, texts(row.endings, 'endings').map(cleaned), index(row.label, 'label')),
    );
  },
  'arc-easy': arc,
  'arc-challenge': arc,
  piqa: (row) => {
    const answers = [text(row, 'sol1'), text(row, 'sol2')];
    return checked(questionOf(`Question: ${text(row, 'goal')}\nAnswer:`, answers, index(row.label, 'label')));
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

/** Reads both forms: that of the authors, and that of the Hugging Face datasets. */
function arc(row: Row): ChoiceQuestion {
  const { question, choices, answerKey } = row;
  const own = isRow(question) ? question : undefined;
  const column = (key: 'text' | 'label'): unknown => {
    if (own === undefined) return isRow(choices) ? choices[key] : undefined;
    return Array.isArray(own.choices) ? own.choices.map((one) => (isRow(one) ? one[key] : one)) : undefined;
  };
  const stem = own === undefined ? text(row, 'question') : text(own, 'stem');
  const gold = texts(column('label'), 'labels of choices').indexOf(String(answerKey));
  return checked(questionOf(`Question: ${stem}\nAnswer:`, texts(column('text'), 'texts of choices'), gold));
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

/** Does as Python's `capitalize`: the first letter large, all others small. */
const capitalized = (words: string): string => words.slice(0, 1).toUpperCase() + words.slice(1).toLowerCase();

/** Removes the marks of WikiHow. */
const cleaned = (words: string): string =>
  words
    .trim()
    .replaceAll(' [title]', '. ')
    .replaceAll(/\[.*?\]/g, '')
    .replaceAll('  ', ' ');

/** A question with several answers, as texts that a model scores. */
export interface ChoiceQuestion {
  /** For each answer the text before it; the same for all, but where the answer is in the context. */
  readonly contexts: readonly string[];
  /** The text that is scored after each context. */
  readonly continuations: readonly string[];
  /** Characters of each answer, by which `acc_norm` divides; undefined of tasks that have no `acc_norm`. */
  readonly lengths: readonly number[] | undefined;
  /** The index of the right answer. */
  readonly gold: number;
}

/** A row lacks something: the task names the file and the line. */
export class UnusableRowError extends Error {}

/** Returns a question whose answers follow one text, after a space. */
function questionOf(context: string, answers: readonly string[], gold: number): ChoiceQuestion {
  return {
    contexts: answers.map(() => context),
    continuations: answers.map((answer) => ` ${answer}`),
    // characters as Python counts them
    lengths: answers.map((answer) => [...answer].length),
    gold,
  };
}
