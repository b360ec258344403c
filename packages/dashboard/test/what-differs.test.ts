import { isFlagName } from '@mtl/configuration/flags';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decisiveFlags, mostDecisiveFirst } from '../page/order-of-differences.js';
import { formatValue, splitWords } from '../page/value-text.js';

describe('mostDecisiveFirst', () => {
  const listNames = (differences: Readonly<Record<string, readonly string[]>>): readonly string[] =>
    mostDecisiveFirst(Object.entries(differences).map(([name, values]) => ({ name, values }))).map(
      ({ name }) => name,
    );

  it('has learning rate and layers before what comes first in the alphabet', () => {
    const values = ['1', '2'];
    expect(
      listNames({
        'adam-beta2': values,
        'attention-dropout': values,
        'loss-spike-window': values,
        lr: values,
        'num-layers': values,
        seed: values,
        'tokenizer-model': ['a', 'b'],
      }),
    ).toEqual([
      ...['lr', 'num-layers', 'adam-beta2', 'attention-dropout'],
      ...['loss-spike-window', 'seed', 'tokenizer-model'],
    ]);
  });

  it('has what differs between more runs first, of decisive flags and of others', () => {
    expect(
      listNames({
        'eval-iters': ['1', '1', '2'],
        lr: ['0.1', '0.1', '0.2'],
        'num-layers': ['2', '4', '8'],
        'log-interval': ['1', '2', '3'],
        seed: ['1', '2', '3'],
      }),
    ).toEqual(['num-layers', 'lr', 'log-interval', 'eval-iters', 'seed']);
  });

  it('knows no decisive flag that training runs do not have', () => {
    expect(decisiveFlags.filter((name) => !isFlagName(name))).toEqual([]);
  });
});

describe('splitWords', () => {
  it.each([
    ['/models/sotu-bpe-4096.tokenizer.json', ['/', 'models/', 'sotu-bpe-4096.', 'tokenizer.', 'json']],
    ['0.7 /data/a_text_document', ['0.7 /', 'data/', 'a_', 'text_', 'document']],
    ['0.0001', ['0.0001']],
    ['1e-5', ['1e-5']],
    ['{"a":1,"b":2}', ['{"a":1,', '"b":2}']],
  ])('breaks %s between words, and no number', (text, words) => {
    expect(splitWords(text)).toEqual(words);
  });

  it('breaks only behind separators, and leaves nothing out', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        const words = splitWords(text);
        expect(words.join('')).toBe(text);
        for (const word of words.slice(0, -1)) expect(word).toMatch(/[/\\,;:=_.|]$/);
      }),
    );
  });

  it('shows lists as words, and what is not known as a dash', () => {
    expect([formatValue(['a', 1]), formatValue(null), formatValue({ a: 1 }), formatValue(false)]).toEqual([
      'a 1',
      '–',
      '{"a":1}',
      'false',
    ]);
  });
});
