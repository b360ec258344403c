import { TaskJson, taskError } from './task-files.js';

/** An answer: a substring of its context. */
export interface SpanAnswer {
  readonly text: string;
  /** The index of the answer's first UTF-16 unit in the context (files count code points instead). */
  readonly start: number;
}

/** A question about a context. */
export interface SpanExample {
  readonly id: string;
  readonly question: string;
  readonly context: string;
  /** All answers from annotators; empty if the context contains no answer (SQuAD 2.0). */
  readonly answers: readonly SpanAnswer[];
}

/** A file of questions. */
export interface SpanExamples {
  /** True if the file marks questions without an answer, as in SQuAD 2.0. */
  readonly hasUnanswerable: boolean;
  readonly examples: readonly SpanExample[];
}

/**
 * Reads a file of SQuAD 1.1 or 2.0 (in 2.0, questions have `is_impossible`). Throws `MTL_DATA_TASK_FILE`;
 * throws `MTL_DATA_TASK_ANSWER`, which names the position in the file, if an answer is not at its
 * `answer_start`.
 */
export function readSquadFile(path: string): SpanExamples {
  const examples: SpanExample[] = [];
  const seen = new Map<string, string>();
  let hasUnanswerable: boolean | undefined;
  for (const article of TaskJson.read(path).get('data').list()) {
    for (const paragraph of article.get('paragraphs').list()) {
      const context = paragraph.get('context').text();
      const units = unitsOfCodePoints(context);
      for (const qa of paragraph.get('qas').list()) {
        const id = qa.get('id').text();
        const before = seen.get(id);
        if (before !== undefined) qa.fail(`has the id ${id} of ${before}`, 'an id of its own');
        seen.set(id, qa.place);
        const says = qa.has('is_impossible');
        hasUnanswerable ??= says;
        if (hasUnanswerable !== says) {
          qa.fail(
            `${says ? 'has an' : 'has no'} "is_impossible"`,
            'it in every question (2.0) or in none (1.1)',
          );
        }
        const impossible = says && qa.get('is_impossible').flag();
        const answers = qa
          .get('answers')
          .list()
          .map((answer) => readAnswer({ answer, context, units }));
        if (answers.length === 0 && !impossible) {
          qa.get('answers').fail('is empty', 'an answer, or "is_impossible": true (SQuAD 2.0)');
        }
        if (answers.length > 0 && impossible) {
          qa.get('answers').fail('has answers to a question that "is_impossible"', 'an empty list');
        }
        examples.push({ id, question: qa.get('question').text(), context, answers });
      }
    }
  }
  if (examples.length === 0) {
    throw taskError({
      code: 'MTL_DATA_TASK_FILE',
      path,
      what: 'has no questions',
      expected: 'data[].paragraphs[].qas[]',
    });
  }
  return { hasUnanswerable: hasUnanswerable === true, examples };
}

function readAnswer(options: {
  answer: TaskJson;
  context: string;
  units: (codePoint: number) => number | undefined;
}): SpanAnswer {
  const { answer, context, units } = options;
  const text = answer.get('text').text();
  const place = answer.get('answer_start');
  const codePoint = place.count();
  const start = units(codePoint);
  if (text === '') answer.get('text').fail('is empty', 'words of the context');
  if (start !== undefined && context.startsWith(text, start)) return { text, start };
  const found = context.indexOf(text);
  const there =
    start === undefined
      ? 'the context ends before it'
      : `the text there is ${quote(context.slice(start, start + text.length))}`;
  return place.fail(
    `${codePoint} is not where the answer ${quote(text)} starts: ${there}`,
    found < 0
      ? 'an answer that is a substring of the context; this one is not'
      : `${[...context.slice(0, found)].length}, where the context has it first`,
    'MTL_DATA_TASK_ANSWER',
  );
}

const quote = (text: string): string => JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}...` : text);

/**
 * Returns a function that converts an index in code points to an index in UTF-16 units; undefined for an
 * index past the end.
 */
function unitsOfCodePoints(text: string): (codePoint: number) => number | undefined {
  const units: number[] = [];
  let unit = 0;
  for (const character of text) {
    units.push(unit);
    unit += character.length;
  }
  return (codePoint) => units[codePoint];
}
