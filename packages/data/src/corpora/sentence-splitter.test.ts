import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createSentenceSplitter } from './sentence-splitter.js';

const split = createSentenceSplitter();

describe('createSentenceSplitter', () => {
  it.each([
    [['Hello world.', 'My name is Jonas.']],
    [['What is your name?', 'My name is Jonas E. Smith.']],
    [['There it is!', 'I found it.']],
    [['It was Mr. Smith who met Dr. Brown and Mrs. Jones on Jan. 5th.', 'They left.']],
    [
      [
        'Hon. J. R. Brown, Lt. Col. A. B. Clark, and Prof. Dr. Ames were there.',
        'They left at 3 p.m. sharp.',
      ],
    ],
    [['See Fig. 3 and Sec. IV, vol. 2, pp. 10-12.', 'All is well.']],
    [['He said no.', 'Then he left.', 'No. 5 of the articles is void.']],
    [['"Is it?" he asked.', '"Yes."']],
    [['She has $100.00, e.g. in her bag.', 'Her address is Jane.Doe@example.com.', 'I wrote.']],
    [['I live in the E.U.', 'How about you?']],
    [['Wait... what?', 'I see.']],
    [['Brown v. Board of Education held otherwise.', 'So did others.']],
  ])('finds %j', (sentences) => {
    expect(split(sentences.join(' '))).toEqual(sentences);
    expect(split(sentences.join('\n'))).toEqual(sentences);
  });

  it('ends a sentence at a blank line, not at a line break', () => {
    expect(split('A headline\n\n  It goes\non here.\r\n \r\nAnd here')).toEqual([
      'A headline',
      'It goes on here.',
      'And here',
    ]);
  });

  it('joins nothing across a blank line', () => {
    expect(split('He is Mr.\n\nSmith')).toEqual(['He is Mr.', 'Smith']);
    expect(split('a\n\nb')).toEqual(['a', 'b']);
  });

  it('knows the sentences of other languages, without English abbreviations', () => {
    const german = createSentenceSplitter({ locale: 'de' });
    expect(german('Das ist gut. Oder nicht?')).toEqual(['Das ist gut.', 'Oder nicht?']);
    const japanese = createSentenceSplitter({ locale: 'ja' });
    expect(japanese('今日は。元気ですか?')).toEqual(['今日は。', '元気ですか?']);
  });

  it('splits a paragraph longer than its window, and a sentence longer than it', () => {
    const sentences = Array.from({ length: 2000 }, (_, i) => `Sentence number ${i} is here.`);
    sentences[700] = `${'very '.repeat(5000)}long.`.replace('v', 'V');
    expect(split(sentences.join(' '))).toEqual(sentences);
  });

  it('loses and adds nothing but white space', () => {
    const text = fc.string({
      unit: fc.constantFrom(
        'a',
        'B',
        '. ',
        '? ',
        '! ',
        '.',
        ' ',
        '\n',
        '\n\n',
        '\r\n',
        '"',
        ')',
        '7',
        'Mr. ',
        '😀',
        '。',
      ),
      maxLength: 200,
    });
    const bare = (value: string) => value.replaceAll(/\s+/g, '');
    fc.assert(
      fc.property(text, (value) => {
        const sentences = split(value);
        expect(bare(sentences.join(''))).toBe(bare(value));
        for (const sentence of sentences) {
          expect(sentence).toBe(sentence.trim());
          expect(sentence).not.toBe('');
          expect(sentence).not.toMatch(/[\r\n]/);
        }
      }),
    );
  });

  it('refuses a locale that is none', () => {
    expect(() => createSentenceSplitter({ locale: 'not a language' })).toThrow(
      expect.objectContaining({
        code: 'MTL_DATA_LOCALE',
        message: expect.stringContaining('not a language'),
      }),
    );
  });
});
