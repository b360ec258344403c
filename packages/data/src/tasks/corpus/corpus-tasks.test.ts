import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readGlueFile, readRaceDirectory, readSquadFile, writeCorpusTasks } from '../../index.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-data-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

// Every sentence says where it stands: "... work 3 ... sentence 17 ...".
const works = Array.from({ length: 40 }, (_, work) =>
  Array.from(
    { length: 60 },
    (_, i) => `This is 😀 of work ${work} and within it there stands sentence ${i} for all to read.`,
  ).join(' '),
);
const place = (text: string) => {
  const [, work, sentence] = /work (\d+) .* sentence (\d+) /.exec(text)!;
  return { work: Number(work), sentence: Number(sentence) };
};
const settings = { documents: works, seed: 5, numTraining: 90, numEvaluation: 30 };
const path = (...names: string[]): string => join(directory, 'tasks', ...names);

beforeAll(() => writeCorpusTasks({ ...settings, directory: join(directory, 'tasks') }));

/** Files with the digests of what they hold. */
function digests(folder: string): string[] {
  const names = readdirSync(folder, { recursive: true, withFileTypes: true });
  return names
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
    .map((name) => {
      const digest = createHash('sha256').update(readFileSync(name)).digest('hex');
      return `${name.slice(folder.length)} ${digest}`;
    });
}

describe('writeCorpusTasks', () => {
  it('writes the same bytes for the same seed, others for another', () => {
    writeCorpusTasks({ ...settings, directory: join(directory, 'again') });
    writeCorpusTasks({ ...settings, seed: 6, directory: join(directory, 'other') });
    const first = digests(join(directory, 'tasks'));
    expect(digests(join(directory, 'again'))).toEqual(first);
    const other = new Set(digests(join(directory, 'other')));
    expect(first.filter((line) => other.has(line))).toEqual([]);
  });

  it('asks in QQP for the next sentence of the work', () => {
    const examples = readGlueFile({ task: 'QQP', path: path('QQP', 'train.tsv') });
    expect(examples).toHaveLength(90);
    for (const { first, second, label } of examples) {
      const [a, b] = [place(first), place(second)];
      if (label === 1) expect(b).toEqual({ work: a.work, sentence: a.sentence + 1 });
      else expect(b.work).not.toBe(a.work);
    }
    expect(new Set(examples.map(({ label }) => label)).size).toBe(2);
    const test = readGlueFile({ task: 'QQP', path: path('QQP', 'test.tsv') });
    expect(test.every(({ label }) => label === undefined)).toBe(true);
  });

  it('asks in MNLI for next sentence, same work or other work', () => {
    const read = (name: string) => readGlueFile({ task: 'MNLI', path: path('MNLI', name) });
    for (const { first, second, label } of read('train.tsv')) {
      const [a, b] = [place(first), place(second)];
      if (label === 0) expect(b.work).not.toBe(a.work);
      if (label === 1) expect(b).toEqual({ work: a.work, sentence: a.sentence + 1 });
      if (label === 2) {
        expect(b.work).toBe(a.work);
        expect(Math.abs(b.sentence - a.sentence)).toBeGreaterThan(10);
      }
    }
    const worksOf = (name: string) => new Set(read(name).map(({ first }) => place(first).work));
    const [train, matched, mismatched] = ['train.tsv', 'dev_matched.tsv', 'dev_mismatched.tsv'].map(worksOf);
    expect([...matched!].filter((work) => train!.has(work) || mismatched!.has(work))).toEqual([]);
    expect(read('test_mismatched.tsv')[0]).toMatchObject({ label: undefined, genre: 'mismatched' });
  });

  it('asks in RACE for the sentences around an article', () => {
    const examples = readRaceDirectory(path('RACE', 'train'));
    expect(examples).toHaveLength(92);
    for (const { article, options, label, questionText, level } of examples) {
      const { work, sentence } = place(article.slice(0, 90));
      const distance = questionText.includes('follows') ? 5 : -1;
      const places = options.map(place);
      expect(places[label]).toEqual({ work, sentence: sentence + distance });
      const sameWork = places.filter((option) => option.work === work);
      expect(sameWork).toHaveLength(level === 'high' ? 2 : 1);
    }
    expect(new Set(examples.map(({ label }) => label)).size).toBe(4);
  });

  it('asks in SQuAD for the words of a hole, in 2.0 also of sentences that are not there', () => {
    const first = readSquadFile(path('SQuAD', 'train-v1.1.json'));
    expect([first.hasUnanswerable, first.examples.length]).toEqual([false, 90]);
    for (const { question, context, answers } of first.examples) {
      const [answer] = answers;
      expect(context).toContain(question.replace('_____', () => answer!.text));
    }
    const second = readSquadFile(path('SQuAD', 'dev-v2.0.json'));
    const unanswerable = second.examples.filter(({ answers }) => answers.length === 0);
    expect(unanswerable.length).toBeGreaterThan(3);
    expect(unanswerable.length).toBeLessThan(20);
    const words = (text: string) => text.split('_____')[0]!.trim();
    const longest = unanswerable.filter(({ question }) => /work \d+ and/.test(words(question)));
    for (const { question, context } of longest) expect(context).not.toContain(words(question));
  });

  it('refuses a corpus of too few whole works', () => {
    for (const documents of [works.slice(0, 31), works.map((text) => text.slice(0, 900))]) {
      expect(() => writeCorpusTasks({ ...settings, documents, directory })).toThrow(
        expect.objectContaining({ code: 'MTL_DATA_TOO_FEW_DOCUMENTS' }),
      );
    }
  });
});
