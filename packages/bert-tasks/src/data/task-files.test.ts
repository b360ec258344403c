import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { MtlError } from '@mtl/errors';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import {
  readGlueFile,
  readRaceDirectory,
  readSquadFile,
  writeGluePredictions,
  writeRacePredictions,
  writeSquadPredictions,
} from '../index.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-data-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

let files = 0;
/** A new file with this text. */
function file(text: string | Uint8Array, name = `${files++}.txt`): string {
  const path = join(directory, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  return path;
}

/** Returns the message of a failing call, without the directory. */
function failure(run: () => unknown) {
  try {
    run();
  } catch (error) {
    if (!MtlError.isInstance(error)) throw error;
    const { code, message, expected = '', exitCode } = error as MtlError;
    expect(exitCode).toBe(2);
    return { code, message: message.replaceAll(`${directory}/`, ''), expected };
  }
  throw new Error('did not fail');
}

const rows = (...lines: (string | number)[][]): string =>
  `${lines.map((line) => line.join('\t')).join('\n')}\n`;
const mnliNames =
  'index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse sentence1 sentence2'.split(
    ' ',
  );
const mnli = (label: string, index = 0) => [
  index,
  1,
  '1e',
  'fiction',
  '',
  '',
  '',
  '',
  'One "a',
  "it's b",
  label,
  label,
];
const qqpNames = ['id', 'qid1', 'qid2', 'question1', 'question2', 'is_duplicate'];

describe('readGlueFile', () => {
  it('reads MNLI with labels, leaving out what has no consensus, and quotes as they are', () => {
    const text = rows(
      [...mnliNames, 'label1', 'gold_label'],
      mnli('neutral', 0),
      mnli('-', 1),
      mnli('contradiction', 2),
    );
    const pair = { first: 'One "a', second: "it's b", genre: 'fiction' };
    expect(readGlueFile({ task: 'MNLI', path: file(text) })).toEqual([
      { id: '0', ...pair, label: 2 },
      { id: '2', ...pair, label: 0 },
    ]);
    // The same text with Windows' line ends, a byte-order mark, and no line break at the end gives the same
    // result.
    const windows = `\ufeff${text.trimEnd().replaceAll('\n', '\r\n')}`;
    expect(readGlueFile({ task: 'MNLI', path: file(windows) })).toHaveLength(2);
  });

  it('reads the five labels of a dev set, and test sets without labels', () => {
    const five = [1, 2, 3, 4, 5].map((i) => `label${i}`);
    const dev = rows(
      [...mnliNames, ...five, 'gold_label'],
      [
        ...mnli('').slice(0, 10),
        'neutral',
        'neutral',
        'entailment',
        'entailment',
        'entailment',
        'entailment',
      ],
    );
    expect(readGlueFile({ task: 'MNLI', path: file(dev) })[0]).toMatchObject({ label: 1 });
    const test = rows(mnliNames, mnli('').slice(0, 10));
    expect(readGlueFile({ task: 'MNLI', path: file(test) })[0]).toMatchObject({ label: undefined });
    const qqp = rows(['id', 'question1', 'question2'], [7, 'Why?', 'How?']);
    expect(readGlueFile({ task: 'QQP', path: file(qqp) })).toEqual([
      { id: '7', first: 'Why?', second: 'How?', label: undefined, genre: undefined },
    ]);
  });

  it('leaves out broken rows where told to', () => {
    const path = file(rows(qqpNames, [0, 1, 2, 'a', 'b', 1], ['a tail'], [1, 3, 4, 'c', 'd', 0]));
    const broken: unknown[] = [];
    const examples = readGlueFile({ task: 'QQP', path, onBrokenRow: (row) => broken.push(row) });
    expect(examples.map(({ label }) => label)).toEqual([1, 0]);
    expect(broken).toEqual([{ line: 3, numColumns: 1, expectedColumns: 6 }]);
  });

  it.each([
    {
      name: 'a label outside the set',
      text: rows(qqpNames, [0, 1, 2, 'a', 'b', 1], [1, 1, 2, 'a', 'b', 2]),
      code: 'MTL_DATA_TASK_LABEL',
      message: 'line 3: the label "2" is not a label',
      expected: '0, 1',
    },
    {
      name: 'a row without all columns',
      text: rows(qqpNames, [0, 1, 2, 'a']),
      code: 'MTL_DATA_TASK_FILE',
      message: 'line 2: has 4 columns',
      expected: '6, as line 1 names',
    },
    {
      name: 'a missing column',
      text: rows(['id', 'question1', 'is_duplicate'], [0, 'a', 1]),
      code: 'MTL_DATA_TASK_FILE',
      message: 'line 1: has no column question2',
      expected: 'it has id, question1, is_duplicate',
    },
    {
      name: 'a label column of another name, which must not pass for a test set',
      text: rows([...qqpNames.slice(0, 5), 'is_duplicated'], [0, 1, 2, 'a', 'b', 1]),
      code: 'MTL_DATA_TASK_FILE',
      message: 'line 1: has no column is_duplicate, but',
      expected: 'the column is_duplicate',
    },
    {
      name: 'no examples',
      text: rows(qqpNames),
      code: 'MTL_DATA_TASK_FILE',
      message: 'has no examples',
      expected: 'rows of QQP',
    },
    { name: 'nothing', text: '', code: 'MTL_DATA_TASK_FILE', message: 'no column', expected: 'question1' },
  ])('refuses $name', ({ text, code, message, expected }) => {
    const found = failure(() => readGlueFile({ task: 'QQP', path: file(text) }));
    expect(found).toEqual({
      code,
      message: expect.stringContaining(message),
      expected: expect.stringContaining(expected),
    });
    expect(found.message).toMatch(/^\d+\.txt[,:]/);
  });

  it('refuses files that are missing or not UTF-8', () => {
    const read = (path: string) => failure(() => readGlueFile({ task: 'QQP', path })).message;
    expect(read(join(directory, 'nothing.tsv'))).toBe('nothing.tsv: no such file');
    expect(read(file(Uint8Array.of(0x69, 0x64, 0xff)))).toContain('is not UTF-8');
  });
});

const passage = (change: object = {}) => ({
  answers: ['B', 'D'],
  options: [
    ['a', 'b', 'c', 'd'],
    ['e', 'f', 'g', 'h'],
  ],
  questions: ['What?', 'Because _ .'],
  article: 'Some text.',
  id: 'high1.txt',
  ...change,
});

describe('readRaceDirectory', () => {
  it('reads both levels, passages in the order of their numbers', () => {
    for (const [level, number] of [
      ['middle', 3],
      ['high', 10],
      ['high', 9],
    ]) {
      file(JSON.stringify(passage({ id: `${level}${number}.txt` })), `race/${level}/${number}.txt`);
    }
    const examples = readRaceDirectory(join(directory, 'race'));
    const names = examples.map(({ passage: name, question, label }) => [name, question, label]);
    expect(names).toEqual([
      ['high9.txt', 0, 1],
      ['high9.txt', 1, 3],
      ['high10.txt', 0, 1],
      ['high10.txt', 1, 3],
      ['middle3.txt', 0, 1],
      ['middle3.txt', 1, 3],
    ]);
    expect(examples[1]).toMatchObject({ questionText: 'Because _ .', level: 'high', article: 'Some text.' });
    const middle = readRaceDirectory(join(directory, 'race', 'middle'));
    expect(middle).toEqual(examples.slice(4));
  });

  it.each([
    {
      name: 'three options',
      change: {
        options: [
          ['a', 'b', 'c', 'd'],
          ['e', 'f', 'g'],
        ],
      },
      code: 'MTL_DATA_TASK_FILE',
      message: 'options[1]: has 3 options',
      expected: '4',
    },
    {
      name: 'an answer outside A to D',
      change: { answers: ['B', 'E'] },
      code: 'MTL_DATA_TASK_LABEL',
      message: 'answers[1]: is "E"',
      expected: 'A, B, C, D',
    },
    {
      name: 'too few answers',
      change: { answers: ['A'] },
      code: 'MTL_DATA_TASK_FILE',
      message: 'answers: has 1 entries',
      expected: '2, one for each question',
    },
    {
      name: 'an article that is no text',
      change: { article: 3 },
      code: 'MTL_DATA_TASK_FILE',
      message: 'article: is 3',
      expected: 'a text',
    },
    {
      name: 'no questions',
      change: { questions: undefined },
      code: 'MTL_DATA_TASK_FILE',
      message: 'has no "questions"',
      expected: 'answers, options, article, id',
    },
  ])('refuses $name', ({ change, code, message, expected }) => {
    const path = file(JSON.stringify(passage(change)), `race${files++}/high/7.txt`);
    const found = failure(() => readRaceDirectory(dirname(dirname(path))));
    expect(found).toMatchObject({ code, message: expect.stringContaining(message) });
    expect(found.message).toContain('high/7.txt');
    expect(found.expected).toContain(expected);
  });

  it('refuses a directory without passages, one that is not there, and text that is not JSON', () => {
    const read = (path: string) => failure(() => readRaceDirectory(path)).message;
    mkdirSync(join(directory, 'empty'));
    expect(read(join(directory, 'empty'))).toBe('empty: has no passages of RACE');
    expect(read(join(directory, 'nowhere'))).toContain('nowhere: cannot be listed');
    expect(read(dirname(file('{"article": ', 'torn/1.txt')))).toContain('torn/1.txt: is not JSON');
  });
});

type Qa = Record<string, unknown>;
const squadText = (...qas: Qa[]): string =>
  JSON.stringify({
    version: 'x',
    data: [{ title: 't', paragraphs: [{ context: '😀 One two three two.', qas }] }],
  });
const qa = (change: Qa = {}): Qa => ({
  id: 'a',
  question: 'Which?',
  answers: [{ text: 'two', answer_start: 6 }],
  ...change,
});

describe('readSquadFile', () => {
  it('reads both versions, places in code points', () => {
    const example = { id: 'a', question: 'Which?', context: '😀 One two three two.' };
    expect(readSquadFile(file(squadText(qa())))).toEqual({
      hasUnanswerable: false,
      examples: [{ ...example, answers: [{ text: 'two', start: 7 }] }],
    });
    const impossible = {
      is_impossible: true,
      answers: [],
      plausible_answers: [{ text: 'x', answer_start: 0 }],
    };
    const second = readSquadFile(
      file(squadText(qa({ is_impossible: false }), qa({ id: 'b', ...impossible }))),
    );
    expect(second.hasUnanswerable).toBe(true);
    expect(second.examples[1]).toEqual({ ...example, id: 'b', answers: [] });
  });

  const at = 'data[0].paragraphs[0].qas[0]';
  it.each([
    {
      name: 'an answer that is not at its position',
      qas: [qa({ answers: [{ text: 'two', answer_start: 7 }] })],
      code: 'MTL_DATA_TASK_ANSWER',
      message: `${at}.answers[0].answer_start: 7 is not where the answer "two" starts: the text there is "wo "`,
      expected: '6, where the context has it first',
    },
    {
      name: 'an answer behind the context',
      qas: [qa({ answers: [{ text: 'four', answer_start: 99 }] })],
      code: 'MTL_DATA_TASK_ANSWER',
      message: 'the context ends before it',
      expected: 'this one is not',
    },
    {
      name: 'no answer in version 1.1',
      qas: [qa({ answers: [] })],
      code: 'MTL_DATA_TASK_FILE',
      message: `${at}.answers: is empty`,
      expected: 'is_impossible',
    },
    {
      name: 'an answer to an impossible question',
      qas: [qa({ is_impossible: true })],
      code: 'MTL_DATA_TASK_FILE',
      message: `${at}.answers: has answers`,
      expected: 'an empty list',
    },
    {
      name: 'a mixture of the versions',
      qas: [qa(), qa({ id: 'b', is_impossible: false })],
      code: 'MTL_DATA_TASK_FILE',
      message: 'qas[1]: has an "is_impossible"',
      expected: 'in every question (2.0) or in none (1.1)',
    },
    {
      name: 'two questions of one id',
      qas: [qa(), qa()],
      code: 'MTL_DATA_TASK_FILE',
      message: `qas[1]: has the id a of ${at}`,
      expected: 'an id of its own',
    },
    {
      name: 'a place that is no number',
      qas: [qa({ answers: [{ text: 'two', answer_start: '6' }] })],
      code: 'MTL_DATA_TASK_FILE',
      message: `${at}.answers[0].answer_start: is "6"`,
      expected: 'a non-negative integer',
    },
    {
      name: 'no answers at all',
      qas: [{ id: 'a', question: '' }],
      code: 'MTL_DATA_TASK_FILE',
      message: `${at}: has no "answers"`,
      expected: 'id, question',
    },
    {
      name: 'no questions',
      qas: [],
      code: 'MTL_DATA_TASK_FILE',
      message: 'has no questions',
      expected: 'qas',
    },
  ])('refuses $name', ({ qas, code, message, expected }) => {
    const found = failure(() => readSquadFile(file(squadText(...qas))));
    expect(found).toMatchObject({ code, message: expect.stringContaining(message) });
    expect(found.message).toMatch(/^\d+\.txt[,:]/);
    expect(found.expected).toContain(expected);
  });

  it('gives a coded error for any change of a file, or reads it', () => {
    const text = squadText(qa({ is_impossible: false }), qa({ id: 'b', is_impossible: true, answers: [] }));
    const path = join(directory, 'mutated.json');
    fc.assert(
      fc.property(fc.nat(text.length), fc.nat(20), fc.string({ maxLength: 3 }), (start, length, put) => {
        writeFileSync(path, text.slice(0, start) + put + text.slice(start + length));
        try {
          for (const { context, answers } of readSquadFile(path).examples) {
            for (const answer of answers) expect(context.startsWith(answer.text, answer.start)).toBe(true);
          }
        } catch (error) {
          if (!MtlError.isInstance(error)) throw error;
          expect((error as MtlError).code).toMatch(/^MTL_DATA_TASK_/);
        }
      }),
      { seed: 6 },
    );
  });
});

describe('predictions', () => {
  const read = (path: string): string => readFileSync(path, 'utf8');

  it('are written as GLUE wants them', () => {
    const path = join(directory, 'MNLI-m.tsv');
    const names = [...mnliNames, 'label1', 'gold_label'];
    const examples = readGlueFile({
      task: 'MNLI',
      path: file(rows(names, mnli('neutral', 4), mnli('neutral', 9))),
    });
    writeGluePredictions({ path, task: 'MNLI', examples, predictions: Int32Array.of(2, 0) });
    expect(read(path)).toBe('index\tprediction\n4\tneutral\n9\tcontradiction\n');
    for (const predictions of [[2], [0, 3], [0, 0.5]]) {
      expect(() => writeGluePredictions({ path, task: 'MNLI', examples, predictions })).toThrow(
        expect.objectContaining({ code: 'MTL_DATA_PREDICTIONS' }),
      );
    }
  });

  it("are written by RACE's passages", () => {
    const folder = dirname(file(JSON.stringify(passage()), 'predicted/1.txt'));
    const path = join(directory, 'race.json');
    writeRacePredictions({ path, examples: readRaceDirectory(folder), predictions: [3, 0] });
    expect(JSON.parse(read(path))).toEqual({ 'high1.txt': ['D', 'A'] });
  });

  it('are written as the evaluation of SQuAD reads them', () => {
    const path = join(directory, 'predictions.json');
    const probabilitiesPath = join(directory, 'probabilities.json');
    const predictions = new Map([
      ['a', 'two'],
      ['b', ''],
    ]);
    const noAnswerProbabilities = new Map([
      ['a', 0.25],
      ['b', 0.75],
    ]);
    writeSquadPredictions({ path, predictions, probabilitiesPath, noAnswerProbabilities });
    expect(JSON.parse(read(path))).toEqual({ a: 'two', b: '' });
    expect(JSON.parse(read(probabilitiesPath))).toEqual({ a: 0.25, b: 0.75 });
    noAnswerProbabilities.delete('b');
    for (const wrong of [{ probabilitiesPath, noAnswerProbabilities }, { probabilitiesPath }]) {
      expect(() => writeSquadPredictions({ path, predictions, ...wrong })).toThrow(
        expect.objectContaining({ code: 'MTL_DATA_PREDICTIONS' }),
      );
    }
  });
});
