import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RandomState } from '@mtl/data';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readGlueFile, readRaceDirectory, readSquadFile, writeCorpusTasks } from '../../index.js';
import { CorpusSentences, splitWorks } from './corpus-works.js';
import { corpusSquad } from './write-corpus-tasks.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-data-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** Returns a word of four lowercase letters. It is different for each `n` below 26^3. */
const word = (n: number): string =>
  `q${[676, 26, 1].map((unit) => String.fromCharCode(97 + (Math.floor(n / unit) % 26))).join('')}`;

// Every sentence states its position: "... work 3 ... sentence 17 ...". Works with closer indices share more
// words: work `n` uses 180 consecutive words of a list, starting at word `12 * n`, and most of the 270 words
// that all works use.
const works = Array.from({ length: 80 }, (_, work) =>
  Array.from({ length: 60 }, (_, i) => {
    const own = [0, 1, 2].map((k) => word(12 * work + 3 * i + k));
    const others = [0, 1, 2, 3].map((k) => word(5000 + ((work + 4 * i + k) % 270)));
    return `This is 😀 of work ${work} and within it there stands sentence ${i} for ${[...own, ...others].join(', ')} here.`;
  }).join(' '),
);
const usesWord = (work: number, text: string): boolean => works[work]!.includes(` ${text}`);
const place = (text: string) => {
  const [, work, sentence] = /work (\d+) .*?sentence (\d+) /.exec(text)!;
  return { work: Number(work), sentence: Number(sentence) };
};
const settings = { documents: works, seed: 5, numTraining: 90, numEvaluation: 30 };
const path = (...names: string[]): string => join(directory, 'tasks', ...names);

beforeAll(() => writeCorpusTasks({ ...settings, directory: join(directory, 'tasks') }));

/** Returns each file of a folder together with the digest of its contents. */
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

  it('asks in MNLI for what follows, what an unlike work says and what has words of another work', () => {
    const read = (name: string) => readGlueFile({ task: 'MNLI', path: path('MNLI', name) });
    const examples = read('train.tsv');
    for (const { first, second, label } of examples) {
      const [a, b] = [place(first), place(second)];
      // Each text has two sentences.
      for (const text of [first, second]) expect(text.match(/sentence/g)).toHaveLength(2);
      const strange = [...second.matchAll(/q[a-z]{3}/g)].filter(([text]) => !usesWord(b.work, text));
      expect(strange).toHaveLength(label === 0 ? 3 : 0);
      if (label !== 2) expect(b).toEqual({ work: a.work, sentence: a.sentence + 2 });
      // works whose indices differ by 15 or more share only common words; the least similar third of the
      // works is at least this far away
      else expect(Math.abs(b.work - a.work)).toBeGreaterThanOrEqual(15);
    }
    // Among 90 examples of three equally likely classes, 30 are expected: 12 is four standard deviations
    // below that.
    for (const label of [0, 1, 2]) {
      expect(examples.filter((one) => one.label === label).length).toBeGreaterThan(12);
    }
    const listWorks = (name: string) => new Set(read(name).map(({ first }) => place(first).work));
    const [train, matched, mismatched] = ['train.tsv', 'dev_matched.tsv', 'dev_mismatched.tsv'].map(
      listWorks,
    );
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

  it('asks in SQuAD for the word of another work, in 2.0 also where there is none', () => {
    const first = readSquadFile(path('SQuAD', 'train-v1.1.json'));
    expect([first.hasUnanswerable, first.examples.length]).toEqual([false, 90]);
    for (const { question, context, answers } of first.examples) {
      expect(question).toBe('Which word is out of place?');
      const { work, sentence } = place(context);
      const strange = [...context.matchAll(/q[a-z]{3}/g)].filter(([text]) => !usesWord(work, text));
      expect(strange.map(({ 0: text }) => text)).toEqual([answers[0]!.text]);
      // only this word was changed, and the new word is not a common word
      const two = works[work]!.split(/(?<=[.]) /)
        .slice(sentence, sentence + 2)
        .join(' ');
      const [before, after] = context.split(answers[0]!.text);
      expect(two.startsWith(before!) && two.endsWith(after!)).toBe(true);
      expect(two.slice(before!.length, two.length - after!.length)).toMatch(/^q[a-z]{3}$/);
    }
    const second = readSquadFile(path('SQuAD', 'dev-v2.0.json'));
    const unanswerable = second.examples.filter(({ answers }) => answers.length === 0);
    // Among 30 examples, a third are unanswerable: 1 and 20 are about four standard deviations from 10.
    expect(unanswerable.length).toBeGreaterThan(1);
    expect(unanswerable.length).toBeLessThan(20);
    for (const { context } of unanswerable) expect(works[place(context).work]).toContain(context);
  });

  it('replaces words of SQuAD by equally common ones, neither very common nor very rare', () => {
    const random = new RandomState(3);
    const sentences = new CorpusSentences({ works: splitWorks(works, 80), random });
    const file = join(directory, 'squad.json');
    writeFileSync(file, corpusSquad({ sentences, random, count: 60, version: '1.1' }));
    for (const { context, answers } of readSquadFile(file).examples) {
      const { text, start } = answers[0]!;
      const { work, sentence } = place(context);
      const original = sentences.textAt({ work, sentence }, 2).slice(start, start + text.length);
      const ranks = [text, original].map((one) => sentences.words.rankOf.get(one)!);
      for (const rank of ranks) expect(rank).toBeGreaterThanOrEqual(150);
      expect(ranks[0]! / ranks[1]!).toBeGreaterThanOrEqual(0.7);
      expect(ranks[0]! / ranks[1]!).toBeLessThanOrEqual(1.4);
    }
  });

  it('refuses works in which no word can be replaced', () => {
    const documents = works.map((text) => text.replaceAll(/q[a-z]{3}/g, 'word'));
    expect(() => writeCorpusTasks({ ...settings, documents, directory })).toThrow(
      expect.objectContaining({
        code: 'MTL_DATA_TOO_FEW_DOCUMENTS',
        message: expect.stringContaining('replaced'),
      }),
    );
  });

  it('refuses a corpus of too few whole works', () => {
    for (const documents of [works.slice(0, 63), works.map((text) => text.slice(0, 900))]) {
      expect(() => writeCorpusTasks({ ...settings, documents, directory })).toThrow(
        expect.objectContaining({ code: 'MTL_DATA_TOO_FEW_DOCUMENTS' }),
      );
    }
  });
});
