import { type ChoiceQuestion, questionOf, UnusableRowError } from './choice-question.js';

/** A line of a task's file. */
export type Row = Readonly<Record<string, unknown>>;

/**
 * The questions of HellaSwag, ARC, PIQA and WinoGrande, worded as EleutherAI's lm-evaluation-harness words
 * them (tasks of version 1: hellaswag, arc_easy, arc_challenge, piqa, winogrande, without examples).
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

/** Both forms: that of the authors, and that of the Hugging Face datasets. */
function arc(row: Row): ChoiceQuestion {
  const { question, choices, answerKey } = row;
  const own = question as { readonly stem?: unknown; readonly choices?: readonly Row[] } | null;
  const isOwn = typeof own === 'object' && own !== null;
  const listed = choices as { readonly text?: unknown; readonly label?: unknown } | undefined;
  const answers = isOwn ? own.choices?.map((one) => one.text) : listed?.text;
  const labels = isOwn ? own.choices?.map((one) => one.label) : listed?.label;
  const stem = text({ question: isOwn ? own.stem : question }, 'question');
  const gold = texts(labels, 'labels of choices').indexOf(String(answerKey));
  return checked(questionOf(`Question: ${stem}\nAnswer:`, texts(answers, 'texts of choices'), gold));
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

/** Python's `capitalize`: the first letter large, all others small. */
const capitalized = (words: string): string => words.slice(0, 1).toUpperCase() + words.slice(1).toLowerCase();

/** Without the marks of WikiHow. */
const cleaned = (words: string): string =>
  words
    .trim()
    .replaceAll(' [title]', '. ')
    .replaceAll(/\[.*?\]/g, '')
    .replaceAll('  ', ' ');
