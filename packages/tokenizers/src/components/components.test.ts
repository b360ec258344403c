import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { DataError } from '@mtl/errors';
import { describe, expect, it } from 'vitest';
import { makeHuggingFaceTokenizer } from '../load-tokenizer-json.js';
import type { Tokenizer } from '../tokenizer.js';

interface Case {
  readonly json: Readonly<Record<string, unknown>>;
  /** The texts of this case. Absent if the case uses the texts that all cases of a sweep share. */
  readonly texts?: readonly string[];
  /** The ids of each text. Null for a text that the tokenizers library rejects. */
  readonly encoded: readonly (readonly number[] | null)[] | null;
  /** The ids of the text `a` with special tokens. `plain` contains the ids without special tokens. */
  readonly special?: readonly number[] | null;
  readonly plain?: readonly number[] | null;
  readonly decoded?: readonly (readonly [number[], string | null])[];
}

/** Returns the result of `run`, or `refused` if it throws a coded error. Any other error is thrown again. */
function refusedOr<T>(run: () => T): T | 'refused' {
  try {
    return run();
  } catch (cause) {
    if (cause instanceof DataError && !/does not work/.test(cause.message)) return 'refused';
    throw cause;
  }
}

const open = (json: object): Tokenizer =>
  makeHuggingFaceTokenizer({
    name: 'HuggingFaceTokenizer',
    path: 'tokenizer.json',
    json: { ...json },
    eodToken: chooseEod(json as Case['json']),
    options: undefined,
  });

/** Returns any token as the end of a document, because the results do not depend on this token. */
function chooseEod({ model }: Case['json']): string {
  const { vocab } = (model ?? {}) as { vocab?: Record<string, number> | [string, number][] };
  return String(Array.isArray(vocab) ? vocab[0]?.[0] : Object.keys(vocab ?? {})[0]);
}

/** How many comparisons had each result, and the cases with differences. */
interface Compared {
  equal: number;
  refused: number;
  refusedByBoth: number;
  /** The number of tokenizers that the library accepts, but this package rejects. */
  refusedTokenizers: number;
  readonly unequal: unknown[];
}

function compare(cases: readonly Case[], texts: readonly string[]): Compared {
  const compared: Compared = { equal: 0, refused: 0, refusedByBoth: 0, refusedTokenizers: 0, unequal: [] };
  const note = (theirs: unknown, ours: unknown, about: object): void => {
    if (ours === 'refused') compared[theirs === null ? 'refusedByBoth' : 'refused']++;
    else if (JSON.stringify(theirs) === JSON.stringify(ours)) compared.equal++;
    else if (theirs !== null) compared.unequal.push({ ...about, theirs, ours });
  };
  for (const [
    number,
    { json, texts: own = texts, encoded, decoded = [], special, plain },
  ] of cases.entries()) {
    const tokenizer = refusedOr(() => open(json));
    if (tokenizer === 'refused') {
      compared[encoded === null ? 'refusedByBoth' : 'refused'] += own.length;
      if (encoded !== null) compared.refusedTokenizers++;
      continue;
    }
    for (const [i, ids] of (encoded ?? []).entries())
      note(
        ids,
        refusedOr(() => tokenizer.encode(own[i]!)),
        { number, text: own[i] },
      );
    for (const [ids, text] of decoded)
      note(
        text,
        refusedOr(() => tokenizer.decode(ids)),
        { number, ids },
      );
    // compares the special tokens at the start of an encoded text, if it is clear where they end
    if (special != null && plain != null && plain.length > 0 && !plain.some((id) => id < 3)) {
      const length = special.findIndex((_, at) => plain.every((id, i) => special[at + i] === id));
      note(special.slice(0, length), tokenizer.startIds ?? [], { number, post: json.post_processor });
    }
  }
  return compared;
}

// tooling/fixtures/make-tokenizer-component-fixtures.py makes the fixtures, and also the large sweeps
const fixture = new URL('../../fixtures/tokenizer-components.json.gz', import.meta.url);
const sweep = process.env.MTL_TEST_TOKENIZER_SWEEP;
const { cases, texts = [] } = JSON.parse(
  sweep === undefined ? gunzipSync(readFileSync(fixture)).toString() : readFileSync(sweep, 'utf8'),
) as {
  cases: Case[];
  texts?: string[];
};

describe('components of a tokenizer.json', () => {
  it('give the ids and texts of the tokenizers library, with random vocabularies', {
    timeout: 3_600_000,
  }, () => {
    const { unequal, ...counts } = compare(cases, texts);
    if (texts.length > 0) console.log(cases.length, 'tokenizers:', counts, unequal.length, 'unequal');
    expect(unequal.slice(0, 10)).toEqual([]);
    // 18 are rejected, because they have unknown characters but no unknown token; the library omits such
    // characters
    if (sweep === undefined) {
      expect(counts).toEqual({ equal: 829, refused: 18, refusedByBoth: 0, refusedTokenizers: 0 });
      return;
    }
    expect(counts.equal).toBeGreaterThan(600);
    expect(counts.refused).toBeLessThan(0.2 * counts.equal);
  });

  it('of each kind are in the fixture', () => {
    const kinds = (field: string) =>
      new Set(
        cases.flatMap(({ json }) =>
          Array.from(JSON.stringify(json[field]).matchAll(/"type":"(\w+)"/g), ([, type]) => type),
        ),
      ).size;
    expect(
      ['normalizer', 'pre_tokenizer', 'model', 'post_processor', 'decoder'].map((field) => [
        field,
        kinds(field),
      ]),
    ).toEqual([
      ['normalizer', 14],
      ['pre_tokenizer', 12],
      ['model', 4],
      ['post_processor', 5],
      ['decoder', 10],
    ]);
  });
});

const special = (id: number, content: string) => ({ id, content, special: true });

const bpe = (tokens: readonly string[], settings: object) => ({
  model: {
    type: 'BPE',
    vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
    merges: [],
    unk_token: '<unk>',
    ...settings,
  },
  pre_tokenizer: { type: 'WhitespaceSplit' },
});

describe('models of a tokenizer.json', () => {
  const unigram = (tokens: readonly string[]) => ({
    model: { type: 'Unigram', vocab: tokens.map((token) => [token, -1]), unk_id: 0, byte_fallback: true },
    pre_tokenizer: { type: 'WhitespaceSplit' },
  });

  // the last column is the result of tokenizers 0.23.2
  it.each([
    ['Unigram falls back to all bytes', unigram(['<unk>', 'a', '<0xC3>', '<0xA9>']), 'aé', [1, 2, 3]],
    ['Unigram is unknown without one of the bytes', unigram(['<unk>', 'a', '<0xC3>']), 'aé', [1, 0]],
    ['Unigram fuses inside a word alone', unigram(['<unk>', 'a']), 'xy xa', [0, 0, 1]],
    ['BPE fuses inside a word alone', bpe(['<unk>', 'a'], { fuse_unk: true }), 'xy xa', [0, 0, 1]],
    [
      'BPE takes the prefix off the right part of a merge',
      bpe(['<unk>', 'a', '##b', '##c', 'ab', 'abc'], {
        continuing_subword_prefix: '##',
        merges: [
          ['a', '##b'],
          ['ab', '##c'],
        ],
      }),
      'abc ac',
      [5, 1, 3],
    ],
    [
      'BPE puts bytes before an unknown character that waits',
      bpe(['<unk>', 'a', '<0xC3>', '<0xA9>'], { byte_fallback: true }),
      'xéa',
      [2, 3, 0, 1],
    ],
  ])('%s', (_name, json, text, ids) => {
    expect(open(json).encode(text)).toEqual(ids);
  });

  it.each([
    ['a random dropout', bpe(['<unk>'], { dropout: 0.1 }), /model\.dropout 0\.1/],
    [
      'a merge without the prefix',
      bpe(['<unk>', 'a', 'b', 'ab'], { continuing_subword_prefix: '##', merges: [['a', 'b']] }),
      /merge number 0 has the right token "b"/,
    ],
    [
      'another normalizer',
      { ...bpe(['a'], {}), normalizer: { type: 'Magic' } },
      /normalizer\.type is "Magic"/,
    ],
    [
      'an added token that becomes empty',
      {
        ...bpe(['a', 'é'], {}),
        normalizer: { type: 'Replace', pattern: { String: 'é' }, content: '' },
        added_tokens: [{ id: 1, content: 'é', normalized: true }],
      },
      /added token "é", which the normalizer makes empty/,
    ],
    [
      'a charsmap that is none',
      { ...bpe(['a'], {}), normalizer: { type: 'Precompiled', precompiled_charsmap: 'AAAA' } },
      /normalizer\.precompiled_charsmap is "AAAA"/,
    ],
  ])('refuse %s', (_name, json, message) => {
    expect(() => open(json)).toThrow(expect.objectContaining({ code: 'MTL_DATA_TOKENIZER' }));
    expect(() => open(json)).toThrow(message);
  });
});

describe('what the tokenizers library counts in its own way', () => {
  it('is refused: the first word behind a charsmap, bytes and other words', () => {
    const charsmap = cases
      .map(({ json }) => /"precompiled_charsmap":"([^"]+)"/.exec(JSON.stringify(json))?.[1])
      .find((found) => found !== undefined);
    const normalizers = [{ type: 'Precompiled', precompiled_charsmap: charsmap }, { type: 'ByteLevel' }];
    const metaspace = { type: 'Metaspace', replacement: '_', prepend_scheme: 'first', split: true };
    const withWords = (pretokenizers: readonly unknown[]) => ({
      ...bpe(['a'], {}),
      normalizer: { type: 'Sequence', normalizers },
      pre_tokenizer: { type: 'Sequence', pretokenizers },
    });
    const words = { type: 'Whitespace' };
    expect(() => open(withWords([words, metaspace]))).toThrow(
      /pretokenizers\[1\]\.prepend_scheme is "first"/,
    );
    expect(() => open(withWords([metaspace, words]))).not.toThrow();
  });
});

describe('fields of a tokenizer.json', () => {
  const wrong = [null, true, -1, 'x', [null], {}];
  const small = { type: 'WordPiece', vocab: { u: 0, a: 1 }, unk_token: 'u', continuing_subword_prefix: '##' };
  const models = [
    small,
    { ...small, type: 'WordLevel' },
    { type: 'Unigram', vocab: [['u', -1]], unk_id: 0, byte_fallback: true },
    { ...small, type: 'BPE', merges: [['a', '##a']], vocab: { u: 0, a: 1, '##a': 2, aa: 3 }, fuse_unk: true },
  ];

  /**
   * Yields changed copies of a value: for each field, a copy with each wrong value, and a copy without the
   * field.
   */
  function* mutations(value: unknown, path: string): Generator<[string, unknown]> {
    if (typeof value !== 'object' || value === null) return;
    // in large lists and vocabularies, only some entries are changed
    for (const [key, child] of Object.entries(value).slice(0, 8)) {
      const copy = (other: unknown) =>
        Array.isArray(value) ? value.with(Number(key), other) : { ...value, [key]: other };
      for (const other of wrong) yield [`${path}.${key} = ${JSON.stringify(other)}`, copy(other)];
      if (!Array.isArray(value)) yield [`no ${path}.${key}`, copy(undefined)];
      for (const [where, changed] of mutations(child, `${path}.${key}`)) yield [where, copy(changed)];
    }
  }

  it('of wrong types work or are refused by an error that names them', () => {
    const failures: string[] = [];
    let numTried = 0;
    const added_tokens = [{ ...special(0, 'u'), normalized: false }];
    for (const [i, { json }] of cases.slice(0, 9).entries()) {
      const parts = { ...json, added_tokens, model: models[i % models.length] };
      for (const [where, changed] of mutations(parts, '')) {
        numTried++;
        try {
          const tokenizer = open({ ...(changed as object) });
          tokenizer.decode(tokenizer.encode('a te字'));
        } catch (error) {
          const isCoded = error instanceof DataError && !/does not work/.test(error.message);
          if (!isCoded) failures.push(`${where}: ${error}`);
        }
      }
    }
    expect(numTried).toBeGreaterThan(1500);
    expect(failures.slice(0, 20)).toEqual([]);
  });
});
